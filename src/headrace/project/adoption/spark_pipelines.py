"""Finds what a pipeline of Spark's own declarative pipelines has left: its tables, and the checkpoints of its flows.

Source: ``SystemMetadata`` of Spark 4.2: ``<storage>/_checkpoints/<catalog>/<schema>/<table>/<flow>/<n>``, of which the
greatest number counts. Tables are where the session's catalog has put them: in the warehouse, by schema.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.delta_log.tables import table_exists
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import AppendFlow, CompleteFlow
from headrace.model.datasets import Kind
from headrace.model.names import Naming
from headrace.project.adoption.adoption_plan import AdoptRequest
from headrace.settings.discover import FAMILIES
from headrace.settings.load import load_settings

_CHECKPOINTS = "_checkpoints"
_SESSION_CATALOG, _DEFAULT_SCHEMA = "spark_catalog", "default"
_WAREHOUSE = "spark-warehouse"


@dataclass(frozen=True)
class SparkPipeline:
    """What a pipeline of Spark's own has in its folders.

    Attributes:
        storage: the folder with its checkpoints.
        warehouse: the folder with its tables.
    """

    storage: Path
    warehouse: Path


@dataclass(frozen=True)
class Found:
    """The tables that can be adopted, and why the others are computed from the start: a reason by name of dataset."""

    requests: tuple[AdoptRequest, ...]
    left_out: Mapping[str, str]


def spark_pipeline(folder: str, warehouse: str, environ: Mapping[str, str]) -> SparkPipeline:
    """The folders of a pipeline.

    Args:
        folder: of its project, or of its storage.
        warehouse: the folder of its tables; empty for ``spark-warehouse`` in the project.
        environ: the process environment.

    Raises:
        PipelineError: ADOPT.NO_SPARK_PIPELINE; as :func:`load_settings`.
    """
    found = Path(folder)
    tables = Path(warehouse) if warehouse else found / _WAREHOUSE
    if (found / _CHECKPOINTS).is_dir():
        return SparkPipeline(found, tables)
    storage = _storage(found, environ)
    if not (storage / _CHECKPOINTS).is_dir():
        raise PipelineError("ADOPT.NO_SPARK_PIPELINE", folder=folder, expected=storage / _CHECKPOINTS)
    return SparkPipeline(storage, tables)


def _storage(folder: Path, environ: Mapping[str, str]) -> Path:
    """The storage that a specification names; the folder itself without one."""
    specifications = (folder / name for family in FAMILIES[1:] for name in family)
    file = next((file for file in specifications if file.is_file()), None)
    if file is None:
        return folder
    # Profiles are Headrace's own.
    own = {key: value for key, value in environ.items() if key != "HEADRACE_PROFILE"}
    return Path(load_settings(file, environ=own).storage)


def find_tables(graph: ResolvedGraph, naming: Naming, pipeline: SparkPipeline) -> Found:
    """The tables of a pipeline that can be adopted, those that others stream from first.

    Args:
        graph: the project, which defines the same datasets.
        naming: resolves names to qualified ones.
        pipeline: its folders.
    """
    requests: list[AdoptRequest] = []
    left_out: dict[str, str] = {}
    for dataset in graph.datasets:
        if not dataset.kind.stored:
            continue
        reason = _reason(graph, dataset)
        table = _table(dataset, naming, pipeline)
        checkpoints = {} if reason else _checkpoints(graph, dataset, naming, pipeline)
        if not reason and not table_exists(str(table)):
            reason = f"there is no Delta table at {table}"
        if not reason and not checkpoints:
            reason = "it has no checkpoint"
        if reason:
            left_out[str(dataset.name)] = reason
        else:
            requests.append(AdoptRequest(str(dataset.name), str(table), checkpoints))
    return Found(tuple(requests), left_out)


def _reason(graph: ResolvedGraph, dataset: ResolvedDataset) -> str:
    if dataset.kind is not Kind.STREAMING_TABLE:
        return f"it is a {dataset.label}, which the next update computes"
    others = [flow for flow in graph.flows_into(dataset.name) if not isinstance(flow, AppendFlow | CompleteFlow)]
    return f'flow "{others[0].name}" is of the kind "{others[0].mode.value}"' if others else ""


def _parts(dataset: ResolvedDataset, naming: Naming) -> tuple[str, str, str]:
    catalog, schema, name = naming.qualified(dataset.name)
    return catalog or _SESSION_CATALOG, schema, name


def _table(dataset: ResolvedDataset, naming: Naming, pipeline: SparkPipeline) -> Path:
    _, schema, name = _parts(dataset, naming)
    # Spark's catalog stores names in lower case.
    folder = () if schema.casefold() == _DEFAULT_SCHEMA else (f"{schema.lower()}.db",)
    return pipeline.warehouse.joinpath(*folder, name.lower())


def _checkpoints(
    graph: ResolvedGraph, dataset: ResolvedDataset, naming: Naming, pipeline: SparkPipeline
) -> dict[str, str]:
    """The newest checkpoint of each flow that has one."""
    folder = pipeline.storage.joinpath(_CHECKPOINTS, *_parts(dataset, naming))
    found = {}
    for flow in graph.flows_into(dataset.name):
        own = folder / flow.name.rpartition(".")[2]
        numbers = [int(entry.name) for entry in own.glob("*") if entry.name.isdigit()]
        if numbers:
            found[flow.name] = os.fspath(own / str(max(numbers)))
    return found
