"""Selects the datasets that an update refreshes, from the names that the user gave."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from headrace.errors import PipelineError, raise_all
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.starts import EARLIEST, Start, parse_start
from headrace.graph.unavailable_sources import distinct_errors
from headrace.model.datasets import Dataset
from headrace.model.names import InvalidName, Naming, QualifiedName
from headrace.options.nearest import did_you_mean


@dataclass(frozen=True)
class Selection:
    """The user's selection; empty means everything."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    # FLOW or FLOW=START.
    reset_checkpoint: tuple[str, ...] = ()
    accept_data_loss: bool = False


@dataclass(frozen=True)
class Selected:
    """Datasets to refresh, and those to clear first. A selection is not widened to upstream datasets."""

    refresh: frozenset[QualifiedName]
    full_refresh: frozenset[QualifiedName]
    # pipelines.reset.allowed=false: a full refresh of everything only refreshes them.
    protected: frozenset[QualifiedName] = frozenset()
    # Flows whose checkpoint is reset while their table keeps its rows.
    starts: Mapping[str, Start] = field(default_factory=dict)
    accept_data_loss: bool = False

    def without(self, names: frozenset[QualifiedName]) -> Selected:
        """The same selection without *names*."""
        return replace(self, refresh=self.refresh - names, full_refresh=self.full_refresh - names)


def select(graph: ResolvedGraph, selection: Selection, naming: Naming) -> Selected:
    """Resolve the names of a selection.

    Raises:
        PipelineError: GRAPH.ONLY_VIEWS, if an update would store nothing.
        Problems: unknown names, names in both lists or together with a refresh of everything, a table that may not be
            reset, an invalid start; an unavailable source of a table to clear or of a flow to reset.
    """
    known = _known(graph)
    if not known:
        raise PipelineError("GRAPH.ONLY_VIEWS")
    wanted = _valid_names((*selection.refresh, *selection.full_refresh), naming)
    members = {member: dataset.name for dataset in graph.datasets for member in dataset.members}
    raise_all(
        PipelineError("SELECTION.MEMBER", name=name, targets=members[name])
        for name in sorted(wanted & members.keys())
        if not graph.flows_into(name)
    )
    fed = {name: dataset for name, dataset in known.items() if dataset.kind.has_flows}
    problems: list[PipelineError] = []
    starts = _starts(selection.reset_checkpoint, graph, naming, problems)
    nothing = Selected(frozenset(), frozenset(), starts=starts, accept_data_loss=selection.accept_data_loss)
    if selection.full_refresh_all:
        if single := (*selection.refresh, *selection.full_refresh):
            problems.append(PipelineError("SELECTION.CONFLICT", names=", ".join(f'"{name}"' for name in single)))
        protected = frozenset(name for name, dataset in fed.items() if not dataset.resettable)
        cleared = frozenset(fed) - protected
        raise_all(problems + _unavailable_problems(graph, cleared))
        return replace(nothing, refresh=frozenset(known), full_refresh=cleared, protected=protected)
    full = _names(selection.full_refresh, known, naming, problems)
    refresh = _names(selection.refresh, known, naming, problems)
    problems += [PipelineError("SELECTION.OVERLAP", name=name) for name in sorted(full & refresh)]
    # Persisted views: each refresh stores their definitions, and there are no rows to clear.
    cleared = full & frozenset(fed)
    for name in sorted(cleared):
        if not fed[name].resettable:
            problems.append(PipelineError("SELECTION.NOT_RESETTABLE", location=fed[name].location, name=name))
    raise_all(problems + _unavailable_problems(graph, cleared))
    if not full and not refresh:
        return replace(nothing, refresh=frozenset(known))
    return replace(nothing, refresh=refresh | full, full_refresh=cleared)


def dataset_name(graph: ResolvedGraph, text: str, naming: Naming) -> QualifiedName:
    """The dataset of a spelling, including a dataset whose sources are unavailable.

    Raises:
        PipelineError: DATASET.UNKNOWN.
    """
    try:
        name = naming.canonical(text)
    except InvalidName:
        name = QualifiedName(text)
    if name not in graph.by_name and name not in graph.unavailable_datasets:
        known = [str(dataset) for dataset in (*graph.by_name, *graph.unavailable_datasets)]
        raise PipelineError("DATASET.UNKNOWN", name=text, suggestion=did_you_mean(text, known))
    return name


def cleared_names(selection: Selection, naming: Naming) -> frozenset[QualifiedName]:
    """The datasets that a selection names for a full refresh; :func:`select` reports invalid names."""
    return _valid_names(selection.full_refresh, naming)


def _valid_names(texts: Iterable[str], naming: Naming) -> frozenset[QualifiedName]:
    """The valid names among the texts; :func:`select` reports the others."""
    found = set()
    for text in texts:
        with suppress(InvalidName):
            found.add(naming.canonical(text))
    return frozenset(found)


def _known(graph: ResolvedGraph) -> dict[QualifiedName, Dataset]:
    """Everything that can be refreshed, including datasets with unavailable sources."""
    datasets = {dataset.name: dataset.dataset for dataset in graph.datasets} | graph.unavailable_datasets
    return {name: dataset for name, dataset in datasets.items() if dataset.kind.has_storage}


def _unavailable_problems(graph: ResolvedGraph, cleared: frozenset[QualifiedName]) -> list[PipelineError]:
    """Why tables cannot be cleared: their sources must be available to compute them again."""
    return distinct_errors(
        unavailable
        for unavailable in graph.unavailable
        if unavailable.target in cleared and unavailable.target in graph.unavailable_datasets
    )


def _names(
    texts: Iterable[str], known: Mapping[QualifiedName, Dataset], naming: Naming, problems: list[PipelineError]
) -> frozenset[QualifiedName]:
    found = set()
    for text in texts:
        try:
            name = naming.canonical(text)
        except InvalidName:
            name = QualifiedName(text)
        if name in known:
            found.add(known[name].name)
        else:
            names = [str(other) for other in known]
            problems.append(PipelineError("SELECTION.UNKNOWN", name=text, suggestion=did_you_mean(text, names)))
    return frozenset(found)


def _starts(
    texts: Iterable[str], graph: ResolvedGraph, naming: Naming, problems: list[PipelineError]
) -> dict[str, Start]:
    found: dict[str, Start] = {}
    unavailable = {flow.name: flow for flow in graph.unavailable if flow.dataset.kind.has_flows}
    known = [*(flow.name for flow in graph.stored_flows), *unavailable]
    for text in texts:
        # The name of a flow may contain an equals sign.
        whole = _flow_name(text, known, naming)
        named, equals, choice = (text, "", "") if whole is not None else text.rpartition("=")
        flow_text = named if equals or whole else text
        flow = whole or _flow_name(flow_text, known, naming)
        start = parse_start(choice) if equals else EARLIEST
        if flow is None:
            problems.append(
                PipelineError("RESET.UNKNOWN_FLOW", flow=flow_text, suggestion=did_you_mean(flow_text, known))
            )
        elif flow in unavailable:
            problems.append(unavailable[flow].error)
        elif start is None:
            problems.append(PipelineError("RESET.BAD_START", flow=flow, start=choice))
        elif found.setdefault(flow, start) != start:
            problems.append(PipelineError("RESET.TWICE", flow=flow, first=found[flow], second=start))
    return found


def _flow_name(text: str, names: Collection[str], naming: Naming) -> str | None:
    """The flow of a text among *names*. A flow without its own name has its dataset's, in any spelling."""
    if text in names:
        return text
    try:
        dataset = str(naming.canonical(text))
    except InvalidName:
        return None
    return next((name for name in names if name.casefold() == dataset.casefold()), None)
