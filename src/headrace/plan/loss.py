"""What a full refresh clears, and whether it can be read again; decided before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.datasets import Kind
from headrace.model.location import Location
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedPast
from headrace.plan.reach import Loss, SourceReach
from headrace.plan.steps import TableChange, TableStep


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
    begun: frozenset[QualifiedName],
) -> Clearing:
    """What the update clears.

    Args:
        graph: the datasets and flows, inputs first.
        past: what the storage still knows of what was read.
        selected: what is cleared, and whether rows may be lost.
        tables: what happens to each table; those that lose rows are marked in the result.
        begun: tables that were cleared before, or deleted by somebody: nothing is asked about them any more.
    """
    losses: list[Loss] = []
    problems: list[PipelineError] = []
    changed = dict(tables)
    cut: set[QualifiedName] = set()
    for dataset in graph.datasets:
        name = dataset.name
        step = tables.get(name)
        if name not in selected.full_refresh or not _clears(past, name, step):
            continue
        found = _loss(graph, past, name, frozenset(cut))
        if any(source.gone for source in found.sources) and (found.rows or found.aside or name in begun):
            cut.add(name)
            if step is not None:
                changed[name] = replace(step, cut=True)
        if name in begun:
            continue
        losses.append(found)
        if found.gone and not selected.accept_data_loss:
            problems.append(_problem(found, dataset.dataset.location, selected))
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
            sources.append(SourceReach(left, "what it read", gone="it is no longer in the code"))
    rows, aside = past.rows(name)
    return Loss(name, rows, aside, tuple(sources))


def _after(source: SourceReach, cut: frozenset[QualifiedName]) -> SourceReach:
    """The source as it is after tables that are cleared in the same update, and lose rows."""
    if source.dataset is None or source.dataset not in cut or source.gone:
        return source
    return replace(source, gone="it is cleared in the same update and loses rows itself")


def _problem(loss: Loss, location: Location, selected: Selected) -> PipelineError:
    return PipelineError(
        "PLAN.DATA_LOSS",
        location=location,
        name=loss.dataset,
        rows=loss.cleared(),
        sources="\n".join(source.describe() for source in loss.sources),
        command=f"{selected.command} --accept-data-loss",
    )
