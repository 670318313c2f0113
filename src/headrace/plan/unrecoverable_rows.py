"""What a full refresh clears, and whether its rows can be read again. Decided before anything is written."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.datasets import Kind
from headrace.model.location import Location
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedHistory
from headrace.plan.restarts import resume_start
from headrace.plan.source_retention import Loss, SourceRetention
from headrace.plan.steps import TableChange, TableStep
from headrace.plan.unfinished_clears import PendingClears


@dataclass(frozen=True)
class Clearing:
    """The rows that are cleared, and a problem for each loss that the user has not accepted."""

    losses: tuple[Loss, ...]
    tables: dict[QualifiedName, TableStep]
    problems: tuple[PipelineError, ...]


def plan_clears(
    graph: ResolvedGraph,
    history: DeployedHistory,
    selected: Selected,
    tables: Mapping[QualifiedName, TableStep],
    pending: PendingClears,
) -> Clearing:
    """Plan what the update clears.

    Args:
        graph: the datasets and flows, inputs first.
        history: what the storage knows of the rows that were read.
        selected: the tables to clear, and whether rows may be lost.
        tables: the steps for tables. The result marks those that lose rows.
        pending: tables that may have lost their rows already. The accepted ones need no consent.
    """
    losses: list[Loss] = []
    problems: list[PipelineError] = []
    changed = dict(tables)
    losing: set[QualifiedName] = set()
    for dataset in graph.datasets:
        name = dataset.name
        step = tables.get(name)
        if name not in selected.full_refresh or not dataset.kind.stored or not _clears(history, name, step):
            continue
        found = _loss(graph, history, name, frozenset(losing))
        accepted = selected.accept_data_loss or name in pending.accepted
        if any(source.unrecoverable for source in found.sources) and (
            found.rows or found.quarantined or name in pending.names
        ):
            losing.add(name)
        if step is not None:
            changed[name] = replace(step, loses_rows=name in losing, accepted=accepted)
        losses.append(found)
        if found.unrecoverable and not accepted:
            problems.append(_problem(found, dataset.dataset.location, _alternative(graph, found, pending)))
    return Clearing(tuple(losses), changed, tuple(problems))


def _clears(history: DeployedHistory, name: QualifiedName, step: TableStep | None) -> bool:
    """True if rows of streams are cleared. A materialized view computes its rows again."""
    return (step is not None and step.change is TableChange.RESET) or history.kind(name) is Kind.STREAMING_TABLE


def _loss(
    graph: ResolvedGraph, history: DeployedHistory, name: QualifiedName, losing: frozenset[QualifiedName]
) -> Loss:
    sources: list[SourceRetention] = []
    streams = history.kind(name) is not Kind.MATERIALIZED_VIEW
    if streams:
        for flow in graph.flows_into(name):
            sources += [_after_clearing(source, losing) for source in history.source_retention(flow)]
        for former in history.former_stream_flows(graph, name):
            sources.append(SourceRetention(former, "its sources", unrecoverable="the flow is no longer in the code"))
    rows, quarantined = history.rows(name)
    return Loss(name, rows, quarantined, tuple(sources))


def _after_clearing(source: SourceRetention, losing: frozenset[QualifiedName]) -> SourceRetention:
    """The source after the same update has cleared tables that lose rows."""
    if source.dataset is None or source.dataset not in losing or source.unrecoverable:
        return source
    return replace(source, unrecoverable="the same update clears it, and it loses rows too")


def _alternative(graph: ResolvedGraph, loss: Loss, pending: PendingClears) -> str:
    """The alternative to clearing a table, as a hint."""
    name = loss.dataset
    if name in pending.deleted:
        return "Restore the table."
    lost = {source.flow for source in loss.sources if source.checkpoint_lost}
    if name not in pending.interrupted and not lost:
        return f"Refresh the table without clearing it: headrace run --refresh {shlex.quote(str(name))}."
    # A flow without its checkpoint is refused; other flows into the table continue.
    stuck = [flow for flow in graph.flows_into(name) if name in pending.interrupted or flow.name in lost]
    starts = [(flow.name, resume_start(flow)) for flow in stuck]
    known = [f"{flow}={start.value}" for flow, start in starts if start is not None]
    if len(known) < len(starts):
        return "Restore what is missing."
    flows = ",".join(known)
    return f"Keep the table and reset its flows: headrace run --reset-checkpoint {shlex.quote(flows)}."


def _problem(loss: Loss, location: Location, otherwise: str) -> PipelineError:
    return PipelineError(
        "PLAN.DATA_LOSS",
        location=location,
        name=loss.dataset,
        rows=loss.cleared(),
        sources="\n".join(source.describe() for source in loss.sources),
        otherwise=otherwise,
    )
