"""The lineage of a dataset's columns: what they come from, and what reads them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.events.types import FlowDefined
from headrace.model.column_lineage import ColumnUse, unique

MOST_COLUMNS = 200
# Of each column, in each direction.
MOST_USES = 20


def lineage_facts(dataset: str, columns: Sequence[str], flows: Iterable[FlowDefined]) -> dict[str, Any]:
    """What the columns of a dataset come from, and which columns of other datasets read them, one step each way.

    At most 200 columns and 20 uses of each are listed; ``more_columns`` and ``more`` say how many are not.

    Args:
        dataset: its name.
        columns: its columns, as far as its definition has them.
        flows: all flows of the pipeline.
    """
    into, readers = _split(dataset, flows)
    known = [flow for flow in into if flow.columns is not None]
    sources, row_sources = _sources(known)
    targets = _targets(dataset, readers)
    names: dict[str, str] = {}
    for name in (*columns, *(name for name, _ in sources.values()), *(name for name, _ in targets.values())):
        names.setdefault(name.casefold(), name)
    return {
        "is_recorded": bool(known),
        "columns": [
            {
                "column": name,
                "is_traced": key in sources,
                "from": _listed([_source(use) for use in sources.get(key, (name, []))[1]]),
                "read_by": _listed(targets.get(key, (name, []))[1]),
            }
            for key, name in list(names.items())[:MOST_COLUMNS]
        ],
        "more_columns": max(len(names) - MOST_COLUMNS, 0),
        "rows": _listed([_source(use) for use in row_sources]),
        "is_complete": all(flow.columns is None or flow.columns.is_complete for flow in into),
        "unknown_flows": [flow.flow for flow in into if flow.columns is None],
        # Those that may read more columns than are known.
        "unknown_readers": list(
            dict.fromkeys(flow.dataset for flow in readers if flow.columns is None or not flow.columns.is_complete)
        ),
    }


def _split(dataset: str, flows: Iterable[FlowDefined]) -> tuple[list[FlowDefined], list[FlowDefined]]:
    """The flows into a dataset, and those that read it."""
    every = list(flows)
    return [flow for flow in every if flow.dataset == dataset], [flow for flow in every if dataset in flow.inputs]


def _sources(flows: Iterable[FlowDefined]) -> tuple[dict[str, tuple[str, list[ColumnUse]]], tuple[ColumnUse, ...]]:
    """What each column comes from, by its folded name with the name itself; and what decides about rows."""
    found: dict[str, tuple[str, list[ColumnUse]]] = {}
    rows: list[ColumnUse] = []
    for lineage in (flow.columns for flow in flows if flow.columns is not None):
        rows += lineage.rows
        for column in lineage.columns:
            found.setdefault(column.name.casefold(), (column.name, []))[1].extend(column.uses)
    return {key: (name, _direct_first(uses)) for key, (name, uses) in found.items()}, unique(rows)


def _targets(dataset: str, readers: Iterable[FlowDefined]) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """What reads each column, by its folded name with the name itself."""
    found: dict[str, tuple[str, dict[tuple[str, str | None, str], dict[str, Any]]]] = {}
    for flow in readers:
        if flow.columns is None:
            continue
        uses = [(column.name, use) for column in flow.columns.columns for use in column.uses]
        for target, use in (*uses, *((None, use) for use in flow.columns.rows)):
            if use.dataset == dataset:
                _, by = found.setdefault(use.column.casefold(), (use.column, {}))
                by[flow.dataset, target, use.use.value] = {"dataset": flow.dataset, "column": target, **_how(use)}
    return {key: (name, sorted(by.values(), key=lambda one: not one["is_direct"])) for key, (name, by) in found.items()}


def _direct_first(uses: Iterable[ColumnUse]) -> list[ColumnUse]:
    return sorted(unique(uses), key=lambda use: not use.use.is_direct)


def _source(use: ColumnUse) -> dict[str, Any]:
    """A column of an input; the namespace is None for a dataset of the pipeline."""
    if isinstance(use.dataset, str):
        named = {"namespace": None, "dataset": use.dataset}
    else:
        named = {"namespace": use.dataset.namespace, "dataset": use.dataset.name}
    return {**named, "column": use.column, **_how(use)}


def _how(use: ColumnUse) -> dict[str, Any]:
    return {"use": use.use.value, "is_direct": use.use.is_direct}


def _listed(uses: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"uses": list(uses[:MOST_USES]), "more": max(len(uses) - MOST_USES, 0)}
