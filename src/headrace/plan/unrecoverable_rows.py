"""What a full refresh clears, and whether it can be read again; decided before anything is written."""

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
from headrace.plan.deployed import DeployedPast
from headrace.plan.restarts import start_to_go_on
from headrace.plan.source_retention import Loss, SourceReach
from headrace.plan.steps import TableChange, TableStep
from headrace.plan.unfinished_clears import Unfinished


@dataclass(frozen=True)
class Clearing:
    """What is cleared, and which of it would be lost without having been allowed."""

    losses: tuple[Loss, ...]
    tables: dict[QualifiedName, TableStep]
    problems: tuple[PipelineError, ...]


def clearing(
    graph: ResolvedGraph,
    past: DeployedPast,
    selected: Selected,
    tables: Mapping[QualifiedName, TableStep],
    due: Unfinished,
) -> Clearing:
    """What the update clears.

    Args:
        graph: the datasets and flows, inputs first.
        past: what the storage still knows of what was read.
        selected: what is cleared, and whether rows may be lost.
        tables: what happens to each table; those that lose rows are marked in the result.
        due: tables that may have lost their rows already; the settled ones are not asked about.
    """
    losses: list[Loss] = []
    problems: list[PipelineError] = []
    changed = dict(tables)
    cut: set[QualifiedName] = set()
    for dataset in graph.datasets:
        name = dataset.name
        step = tables.get(name)
        if name not in selected.full_refresh or not dataset.kind.stored or not _clears(past, name, step):
            continue
        found = _loss(graph, past, name, frozenset(cut))
        accepted = selected.accept_data_loss or name in due.settled
        if any(source.gone for source in found.sources) and (found.rows or found.aside or name in due.names):
            cut.add(name)
        if step is not None:
            changed[name] = replace(step, cut=name in cut, accepted=accepted)
        losses.append(found)
        if found.gone and not accepted:
            problems.append(_problem(found, dataset.dataset.location, _otherwise(graph, found, due)))
    return Clearing(tuple(losses), changed, tuple(problems))


def _clears(past: DeployedPast, name: QualifiedName, step: TableStep | None) -> bool:
    """True when rows go that a stream has brought; what a materialized view holds, it computes again."""
    return (step is not None and step.change is TableChange.RESET) or past.kind(name) is Kind.STREAMING_TABLE


def _loss(graph: ResolvedGraph, past: DeployedPast, name: QualifiedName, cut: frozenset[QualifiedName]) -> Loss:
    sources: list[SourceReach] = []
    streams = past.kind(name) is not Kind.MATERIALIZED_VIEW
    if streams:
        for flow in graph.flows_into(name):
            sources += [_after(source, cut) for source in past.reach(flow)]
        for left in past.left(graph, name):
            sources.append(SourceReach(left, "its sources", gone="the flow is no longer in the code"))
    rows, aside = past.rows(name)
    return Loss(name, rows, aside, tuple(sources))


def _after(source: SourceReach, cut: frozenset[QualifiedName]) -> SourceReach:
    """The source as it is after tables that are cleared in the same update, and lose rows."""
    if source.dataset is None or source.dataset not in cut or source.gone:
        return source
    return replace(source, gone="the same update clears it, and it loses rows too")


def _otherwise(graph: ResolvedGraph, loss: Loss, due: Unfinished) -> str:
    """What can be done in the place of clearing a table, as a hint."""
    name = loss.dataset
    if name in due.lost:
        return "Restore the table."
    lost = {source.flow for source in loss.sources if source.checkpoint_lost}
    if name not in due.interrupted and not lost:
        return f"Refresh the table without clearing it: headrace run --refresh {shlex.quote(str(name))}."
    # Without its checkpoint a flow is refused; those beside it go on.
    stuck = [flow for flow in graph.flows_into(name) if name in due.interrupted or flow.name in lost]
    starts = [(flow.name, start_to_go_on(flow)) for flow in stuck]
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
