"""Which flows an update runs, from the names that the user gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from headrace.errors import PipelineError, raise_all
from headrace.graph.build import did_you_mean
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.starts import EARLIEST, Start, start_of
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
        Problems: unknown names, names in both lists or beside a refresh of everything, a table that may not be reset, a
            start that is none.
    """
    stored = {dataset.name: dataset for dataset in graph.datasets if dataset.kind.stored}
    # Persisted views: each refresh stores their definitions, and there are no rows to clear.
    views = frozenset(dataset.name for dataset in graph.datasets if dataset.kind.kept) - frozenset(stored)
    problems: list[PipelineError] = []
    absent = frozenset(away.target for away in graph.away) - frozenset(graph.by_name)
    starts = _starts(selection.reset_checkpoint, graph, naming, problems)
    nothing = Selected(frozenset(), frozenset(), starts=starts, accept_data_loss=selection.accept_data_loss)
    if selection.full_refresh_all:
        if single := (*selection.refresh, *selection.full_refresh):
            problems.append(PipelineError("SELECTION.CONFLICT", names=", ".join(f'"{name}"' for name in single)))
        raise_all(problems)
        kept = frozenset(name for name, dataset in stored.items() if not dataset.dataset.resettable)
        everything = frozenset(stored) | views | absent
        return replace(nothing, refresh=everything, full_refresh=frozenset(stored) - kept, kept=kept)
    full = _names(selection.full_refresh, graph, naming, problems)
    refresh = _names(selection.refresh, graph, naming, problems)
    problems += [PipelineError("SELECTION.OVERLAP", name=name) for name in sorted(full & refresh)]
    for name in sorted(full):
        if name in stored and not stored[name].dataset.resettable:
            problems.append(
                PipelineError("SELECTION.NOT_RESETTABLE", location=stored[name].dataset.location, name=name)
            )
    # What is to be cleared has to be there to be computed again.
    problems += [away.error for away in graph.away if away.target in full and away.target not in graph.by_name]
    raise_all(problems)
    if not full and not refresh:
        return replace(nothing, refresh=frozenset(stored) | views | absent)
    return replace(nothing, refresh=refresh | full, full_refresh=full - views)


def dataset_name(graph: ResolvedGraph, text: str, naming: Naming) -> QualifiedName:
    """The dataset behind a spelling.

    Raises:
        PipelineError: DATASET.UNKNOWN.
    """
    try:
        name = naming.canonical(text)
    except InvalidName:
        name = QualifiedName(text)
    if name not in graph.by_name:
        known = [str(dataset.name) for dataset in graph.datasets]
        raise PipelineError("DATASET.UNKNOWN", name=text, suggestion=did_you_mean(text, known))
    return name


def cleared_names(selection: Selection, naming: Naming) -> frozenset[QualifiedName]:
    """The datasets that a selection names for a full refresh; what is no name is for :func:`select` to say."""
    found = set()
    for text in selection.full_refresh:
        with suppress(InvalidName):
            found.add(naming.canonical(text))
    return frozenset(found)


def _names(
    texts: Iterable[str], graph: ResolvedGraph, naming: Naming, problems: list[PipelineError]
) -> frozenset[QualifiedName]:
    found = set()
    for text in texts:
        try:
            name = naming.canonical(text)
        except InvalidName:
            name = QualifiedName(text)
        dataset = graph.by_name.get(name)
        if dataset is None and any(name == away.target for away in graph.away):
            found.add(name)
        elif dataset is None or not dataset.kind.kept:
            known = [str(d.name) for d in graph.datasets if d.kind.kept]
            problems.append(PipelineError("SELECTION.UNKNOWN", name=text, suggestion=did_you_mean(text, known)))
        else:
            found.add(dataset.name)
    return frozenset(found)


def _starts(
    texts: Iterable[str], graph: ResolvedGraph, naming: Naming, problems: list[PipelineError]
) -> dict[str, Start]:
    found: dict[str, Start] = {}
    for text in texts:
        # A flow may have any name, also one with an equals sign in it.
        whole = _flow_name(text, graph, naming)
        named, equals, choice = (text, "", "") if whole is not None else text.rpartition("=")
        spelled = named if equals or whole else text
        flow = whole or _flow_name(spelled, graph, naming)
        start = start_of(choice) if equals else EARLIEST
        away = next((away for away in graph.away if away.name in (text, spelled)), None)
        if away is not None:
            problems.append(away.error)
        elif flow is None:
            known = [flow.name for flow in graph.stored_flows]
            problems.append(PipelineError("RESET.UNKNOWN_FLOW", flow=spelled, suggestion=did_you_mean(spelled, known)))
        elif start is None:
            problems.append(PipelineError("RESET.BAD_START", flow=flow, start=choice))
        elif found.setdefault(flow, start) != start:
            problems.append(PipelineError("RESET.TWICE", flow=flow, first=found[flow], second=start))
    return found


def _flow_name(text: str, graph: ResolvedGraph, naming: Naming) -> str | None:
    """The name of a flow that is run; one without a name of its own has its dataset's, however that is spelled."""
    names = {flow.name for flow in graph.stored_flows}
    if text in names:
        return text
    try:
        dataset = str(naming.canonical(text))
    except InvalidName:
        return None
    return next((name for name in names if name.casefold() == dataset.casefold()), None)
