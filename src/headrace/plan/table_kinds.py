"""Tables that the code now makes in another way than they were made; found before their rows are touched."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow, ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedPast


def changed_kinds(
    graph: ResolvedGraph, past: DeployedPast, selected: Selected
) -> tuple[list[PipelineError], frozenset[QualifiedName]]:
    """A problem for each table that is kept and was made by another kind of query, and the names of these tables."""
    problems: list[PipelineError] = []
    names: set[QualifiedName] = set()
    for dataset in graph.datasets:
        if dataset.kind is Kind.PERSISTED_VIEW and dataset.name in selected.refresh:
            problems += _hides_table(past, dataset)
        if dataset.kind is Kind.SINK and dataset.name in selected.refresh and past.kind(dataset.name) is not None:
            path = past.path(dataset.name)
            problems.append(
                PipelineError("SINK.OVER_TABLE", location=dataset.dataset.location, name=dataset.name, path=path)
            )
            names.add(dataset.name)
            continue
        # A view stores no rows that could mix with what is there.
        if dataset.name not in selected.refresh - selected.full_refresh or not dataset.kind.fed:
            continue
        found = _kind_changed(past, dataset) or next(
            (
                problem
                for flow in graph.flows_into(dataset.name)
                if (problem := _mode_changed(past, flow) or _replaces_others(graph, past, flow))
            ),
            None,
        )
        if found is not None:
            problems.append(found)
            names.add(dataset.name)
    return problems, frozenset(names)


def _hides_table(past: DeployedPast, dataset: ResolvedDataset) -> list[PipelineError]:
    """Who asks the tables finds the view under its name, and the rows of the table under none."""
    was, (rows, _) = past.kind(dataset.name), past.rows(dataset.name)
    if was is None and not rows:
        return []
    return [
        PipelineError(
            "VIEW.OVER_TABLE",
            location=dataset.dataset.location,
            name=dataset.name,
            kind=was.label if was else "table",
            rows=f"{rows} row{'' if rows == 1 else 's'}",
            path=past.path(dataset.name),
        )
    ]


def _kind_changed(past: DeployedPast, dataset: ResolvedDataset) -> PipelineError | None:
    was = past.kind(dataset.name)
    if was is None or was is dataset.kind:
        return None
    return PipelineError(
        "TABLE.KIND_CHANGED",
        location=dataset.dataset.location,
        name=dataset.name,
        before=was.label,
        now=dataset.kind.label,
    )


def _mode_changed(past: DeployedPast, flow: ResolvedFlow) -> PipelineError | None:
    """A stream that became a flow which runs once has no checkpoint, or the other way around."""
    was = past.mode(flow)
    if was is None or was is flow.mode or Mode.ONCE not in (was, flow.mode):
        return None
    before, now = ("runs once", "streams") if was is Mode.ONCE else ("streams", "runs once")
    return PipelineError(
        "FLOW.MODE_CHANGED",
        location=flow.flow.location,
        flow=flow.name,
        name=flow.target,
        before=before,
        now=now,
    )


def _replaces_others(graph: ResolvedGraph, past: DeployedPast, flow: ResolvedFlow) -> PipelineError | None:
    """A flow whose first result would take the place of rows that it has not brought."""
    name = flow.target
    if flow.mode not in (Mode.COMPLETE, Mode.REPLACE):
        return None
    left = past.left(graph, name) if flow.mode is Mode.COMPLETE else ()
    if (past.wrote(flow) and not left) or not past.rows(name)[0]:
        return None
    reason = "no record says that this flow wrote them"
    if left:
        flows = ", ".join(f'"{flow}"' for flow in left)
        reason = f"some of them are from flows that are no longer in the code: {flows}"
    return PipelineError("TABLE.ROWS_OF_OTHERS", location=flow.flow.location, flow=flow.name, name=name, reason=reason)
