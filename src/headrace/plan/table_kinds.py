"""Finds tables whose kind or flow mode changed in the code, before their rows are touched."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import CompleteFlow, Mode, RefreshFlow, ResolvedFlow
from headrace.graph.select import Selected
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedHistory


def changed_kinds(
    graph: ResolvedGraph, history: DeployedHistory, selected: Selected
) -> tuple[list[PipelineError], frozenset[QualifiedName]]:
    """A problem for each table that keeps its rows and was written by another kind of query; and their names."""
    problems: list[PipelineError] = []
    names: set[QualifiedName] = set()
    for dataset in graph.datasets:
        if dataset.kind is Kind.PERSISTED_VIEW and dataset.name in selected.refresh:
            problems += _hides_table(history, dataset)
        if dataset.kind is Kind.SINK and dataset.name in selected.refresh and history.kind(dataset.name) is not None:
            path = history.path(dataset.name)
            problems.append(
                PipelineError("SINK.OVER_TABLE", location=dataset.dataset.location, name=dataset.name, path=path)
            )
            names.add(dataset.name)
            continue
        # A view stores no rows that could mix with existing ones.
        if dataset.name not in selected.refresh - selected.full_refresh or not dataset.kind.has_flows:
            continue
        found = _kind_changed(history, dataset) or next(
            (
                problem
                for flow in graph.flows_into(dataset.name)
                if (problem := _mode_changed(history, flow) or _replaces_others(graph, history, flow))
            ),
            None,
        )
        if found is not None:
            problems.append(found)
            names.add(dataset.name)
    return problems, frozenset(names)


def _hides_table(history: DeployedHistory, dataset: ResolvedDataset) -> list[PipelineError]:
    """The problem of a view that would hide the table of the same name."""
    was, (rows, _) = history.kind(dataset.name), history.rows(dataset.name)
    if was is None and not rows:
        return []
    return [
        PipelineError(
            "VIEW.OVER_TABLE",
            location=dataset.dataset.location,
            name=dataset.name,
            kind=was.label if was else "table",
            rows=f"{rows} row{'' if rows == 1 else 's'}",
            path=history.path(dataset.name),
        )
    ]


def _kind_changed(history: DeployedHistory, dataset: ResolvedDataset) -> PipelineError | None:
    was = history.kind(dataset.name)
    if was is None or was is dataset.kind:
        return None
    return PipelineError(
        "TABLE.KIND_CHANGED",
        location=dataset.dataset.location,
        name=dataset.name,
        before=was.label,
        now=dataset.kind.label,
    )


def _mode_changed(history: DeployedHistory, flow: ResolvedFlow) -> PipelineError | None:
    """The problem of a stream that became a once flow, or the other way around."""
    was = history.mode(flow)
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


def _replaces_others(graph: ResolvedGraph, history: DeployedHistory, flow: ResolvedFlow) -> PipelineError | None:
    """The problem of a flow whose first result would replace rows that it did not write."""
    name = flow.target
    if not isinstance(flow, CompleteFlow | RefreshFlow):
        return None
    former = history.former_stream_flows(graph, name) if isinstance(flow, CompleteFlow) else ()
    if (history.has_written(flow) and not former) or not history.rows(name)[0]:
        return None
    reason = "Headrace has no record that this flow wrote them"
    if former:
        flows = ", ".join(f'"{flow}"' for flow in former)
        reason = f"some of them are from flows that are no longer in the code: {flows}"
    return PipelineError("TABLE.ROWS_OF_OTHERS", location=flow.flow.location, flow=flow.name, name=name, reason=reason)
