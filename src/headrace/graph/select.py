"""Which flows an update runs, from the names that the user gave."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from headrace.errors import PipelineError, raise_all
from headrace.graph.build import did_you_mean
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.starts import EARLIEST, Start, start_of
from headrace.graph.unavailable_sources import errors_of
from headrace.model.datasets import Dataset
from headrace.model.names import InvalidName, Naming, QualifiedName


@dataclass(frozen=True)
class Selection:
    """What to refresh as the user asked; empty means everything."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    # FLOW or FLOW=START.
    reset_checkpoint: tuple[str, ...] = ()
    accept_data_loss: bool = False


@dataclass(frozen=True)
class Selected:
    """Datasets to refresh and those to clear first; a selection is not widened to what they read."""

    refresh: frozenset[QualifiedName]
    full_refresh: frozenset[QualifiedName]
    # Protected by pipelines.reset.allowed=false, so only refreshed by a full refresh of everything.
    kept: frozenset[QualifiedName] = frozenset()
    # Flows whose progress is dropped while their tables are kept.
    starts: Mapping[str, Start] = field(default_factory=dict)
    accept_data_loss: bool = False

    def without(self, names: frozenset[QualifiedName]) -> Selected:
        """The same but for *names*, which are left as they are."""
        return replace(self, refresh=self.refresh - names, full_refresh=self.full_refresh - names)


def select(graph: ResolvedGraph, selection: Selection, naming: Naming) -> Selected:
    """The datasets behind a selection.

    Raises:
        PipelineError: GRAPH.ONLY_VIEWS, when an update would leave nothing behind.
        Problems: unknown names, names in both lists or beside a refresh of everything, a table that may not be reset, a
            start that is none; why a source is away of a table that is to be cleared, or of a flow that is to start
            elsewhere.
    """
    known = _known(graph)
    if not known:
        raise PipelineError("GRAPH.ONLY_VIEWS")
    wanted = _spelled((*selection.refresh, *selection.full_refresh), naming)
    members = {member: dataset.name for dataset in graph.datasets for member in dataset.members}
    raise_all(
        PipelineError("SELECTION.MEMBER", name=name, targets=members[name])
        for name in sorted(wanted & members.keys())
        if not graph.flows_into(name)
    )
    fed = {name: dataset for name, dataset in known.items() if dataset.kind.fed}
    problems: list[PipelineError] = []
    starts = _starts(selection.reset_checkpoint, graph, naming, problems)
    nothing = Selected(frozenset(), frozenset(), starts=starts, accept_data_loss=selection.accept_data_loss)
    if selection.full_refresh_all:
        if single := (*selection.refresh, *selection.full_refresh):
            problems.append(PipelineError("SELECTION.CONFLICT", names=", ".join(f'"{name}"' for name in single)))
        kept = frozenset(name for name, dataset in fed.items() if not dataset.resettable)
        cleared = frozenset(fed) - kept
        raise_all(problems + _absent(graph, cleared))
        return replace(nothing, refresh=frozenset(known), full_refresh=cleared, kept=kept)
    full = _names(selection.full_refresh, known, naming, problems)
    refresh = _names(selection.refresh, known, naming, problems)
    problems += [PipelineError("SELECTION.OVERLAP", name=name) for name in sorted(full & refresh)]
    # Persisted views: each refresh stores their definitions, and there are no rows to clear.
    cleared = full & frozenset(fed)
    for name in sorted(cleared):
        if not fed[name].resettable:
            problems.append(PipelineError("SELECTION.NOT_RESETTABLE", location=fed[name].location, name=name))
    raise_all(problems + _absent(graph, cleared))
    if not full and not refresh:
        return replace(nothing, refresh=frozenset(known))
    return replace(nothing, refresh=refresh | full, full_refresh=cleared)


def dataset_name(graph: ResolvedGraph, text: str, naming: Naming) -> QualifiedName:
    """The dataset behind a spelling, also one that is absent from the graph because its sources are away.

    Raises:
        PipelineError: DATASET.UNKNOWN.
    """
    try:
        name = naming.canonical(text)
    except InvalidName:
        name = QualifiedName(text)
    if name not in graph.by_name and name not in graph.absent:
        known = [str(dataset) for dataset in (*graph.by_name, *graph.absent)]
        raise PipelineError("DATASET.UNKNOWN", name=text, suggestion=did_you_mean(text, known))
    return name


def cleared_names(selection: Selection, naming: Naming) -> frozenset[QualifiedName]:
    """The datasets that a selection names for a full refresh; what is no name is for :func:`select` to say."""
    return _spelled(selection.full_refresh, naming)


def _spelled(texts: Iterable[str], naming: Naming) -> frozenset[QualifiedName]:
    """The names behind texts; what is no name is told elsewhere."""
    found = set()
    for text in texts:
        with suppress(InvalidName):
            found.add(naming.canonical(text))
    return frozenset(found)


def _known(graph: ResolvedGraph) -> dict[QualifiedName, Dataset]:
    """What can be refreshed, whether or not its sources are away."""
    datasets = {dataset.name: dataset.dataset for dataset in graph.datasets} | graph.absent
    return {name: dataset for name, dataset in datasets.items() if dataset.kind.kept}


def _absent(graph: ResolvedGraph, cleared: frozenset[QualifiedName]) -> list[PipelineError]:
    """Why tables cannot be cleared: what is, has to be there to be computed again."""
    return errors_of(away for away in graph.away if away.target in cleared and away.target in graph.absent)


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
    away = {flow.name: flow for flow in graph.away if flow.dataset.kind.fed}
    known = [*(flow.name for flow in graph.stored_flows), *away]
    for text in texts:
        # A flow may have any name, also one with an equals sign in it.
        whole = _flow_name(text, known, naming)
        named, equals, choice = (text, "", "") if whole is not None else text.rpartition("=")
        spelled = named if equals or whole else text
        flow = whole or _flow_name(spelled, known, naming)
        start = start_of(choice) if equals else EARLIEST
        if flow is None:
            problems.append(PipelineError("RESET.UNKNOWN_FLOW", flow=spelled, suggestion=did_you_mean(spelled, known)))
        elif flow in away:
            problems.append(away[flow].error)
        elif start is None:
            problems.append(PipelineError("RESET.BAD_START", flow=flow, start=choice))
        elif found.setdefault(flow, start) != start:
            problems.append(PipelineError("RESET.TWICE", flow=flow, first=found[flow], second=start))
    return found


def _flow_name(text: str, names: Collection[str], naming: Naming) -> str | None:
    """The name of a flow among *names*; one without a name of its own has its dataset's, however that is spelled."""
    if text in names:
        return text
    try:
        dataset = str(naming.canonical(text))
    except InvalidName:
        return None
    return next((name for name in names if name.casefold() == dataset.casefold()), None)
