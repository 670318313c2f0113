"""What tells whether a flow computes the same as before: digests of its query and of all that decides its result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from headrace.model.cdc import ApplyChanges, CompareSnapshots
from headrace.model.datasets import Dataset, Flow
from headrace.model.names import QualifiedName
from headrace.spark.analysis.plans import (
    PlanReading,
    fingerprint,
    plan_identity,
    without_ids_of_fallbacks,
    without_reader_paths,
)


class QueryIdentity(NamedTuple):
    """The fingerprint of a query, in the current form and in that of version 0.1."""

    now: str
    former: str


class QueryIdentities:
    """The identities of a project's queries. Law: equal as long as a flow computes the same from the same inputs.

    Args:
        datasets: the declarations, by name.
        files: the project's Python files. Their text is part of the identity of queries that run Python code.
        parameters: a digest of the settings that queries can read.
        stubs: the folder of the stubs that queries are analyzed on.
    """

    def __init__(
        self, datasets: Mapping[QualifiedName, Dataset], files: tuple[Path, ...], parameters: str, stubs: str
    ) -> None:
        self._datasets = datasets
        self._files = files
        self._parameters = parameters
        self._stubs = stubs
        # Rules and confs of a view apply in the queries that read it, and are not part of its plan.
        self._views: dict[QualifiedName, QueryIdentity] = {}

    def of(self, flow: Flow, frame: DataFrame, reading: PlanReading) -> QueryIdentity:
        """The identity of a flow's query; those of the views that it reads must have been asked for before.

        Args:
            flow: the flow.
            frame: the result of its query on stubs.
            reading: what the plan of the result reads.
        """
        dataset = self._datasets.get(flow.target)
        rules = [f"{e.name} {e.action.value} {e.text}" for e in dataset.expectations] if dataset else []
        rules += _sorted(dataset.column_comments) if dataset else []
        rules += [_fingerprint_text(declared) for declared in (flow.changes, flow.snapshots) if declared is not None]
        code = self._code_digest() if reading.python else ""
        settings = (self._parameters, code, *rules, *_sorted(flow.spark_conf))
        views = [self._views.get(name, QueryIdentity("", "")) for name in reading.inputs]
        tables = () if frame.isStreaming else reading.tables
        plan = plan_identity(frame, self._stubs)
        stable = without_ids_of_fallbacks(without_reader_paths(plan))
        identity = QueryIdentity(
            fingerprint(stable, reading, *tables, *settings, *(view.now for view in views)),
            fingerprint(plan, reading, *settings, *(view.former for view in views)),
        )
        if dataset is not None and dataset.kind.is_view:
            self._views[dataset.name] = identity
        return identity

    def _code_digest(self) -> str:
        digest = hashlib.sha256()
        for file in self._files:
            digest.update(file.read_bytes())
        return digest.hexdigest()


def _fingerprint_text(declared: ApplyChanges | CompareSnapshots) -> str:
    """The text of a declaration in fingerprints, which are stored with the former name of a field."""
    return str(declared).replace(", ignore_null_columns=Columns(", ", null_keeps=Columns(", 1)


def _sorted(conf: Any) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(conf.items())]
