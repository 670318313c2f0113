"""Selects the datasets that an update refreshes, from the names and selectors that the user gave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from headrace.errors import PipelineError, Problems, problems_of, raise_all
from headrace.graph.matching import Matching
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import RestartableFlow
from headrace.graph.selectors import is_plain_name, parse_selector
from headrace.graph.starts import EARLIEST, Start, parse_start
from headrace.graph.unavailable_sources import distinct_errors
from headrace.model.names import InvalidName, Naming, QualifiedName
from headrace.options.nearest import did_you_mean


@dataclass(frozen=True)
class Selection:
    """The user's selection, in the grammar of :mod:`headrace.graph.selectors`; empty means everything."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    # FLOW or FLOW=START, or selectors of datasets in place of FLOW.
    reset_checkpoint: tuple[str, ...] = ()
    accept_data_loss: bool = False
    exclude: tuple[str, ...] = ()
    # Nothing is selected, although no name is given: ``state:modified`` found nothing.
    selects_nothing: bool = False

    @property
    def is_exact(self) -> bool:
        """True if it has only names of datasets and flows, which mean the same whatever the graph is."""
        flows = (text.partition("=")[0] for text in self.reset_checkpoint)
        return not self.exclude and all(map(is_plain_name, (*self.refresh, *self.full_refresh, *flows)))


@dataclass(frozen=True)
class Selected:
    """Datasets to refresh, and those to clear first. A selection is not widened to upstream datasets."""

    refresh: frozenset[QualifiedName]
    full_refresh: frozenset[QualifiedName]
    # pipelines.reset.allowed=false: a full refresh of everything, or of a selector, only refreshes them.
    protected: frozenset[QualifiedName] = frozenset()
    # Flows whose checkpoint is reset while their table keeps its rows.
    starts: Mapping[str, Start] = field(default_factory=dict)
    accept_data_loss: bool = False

    def without(self, names: frozenset[QualifiedName]) -> Selected:
        """The same selection without *names*."""
        return replace(self, refresh=self.refresh - names, full_refresh=self.full_refresh - names)


def select(
    graph: ResolvedGraph,
    selection: Selection,
    naming: Naming,
    modified: Callable[[], frozenset[QualifiedName]] = frozenset,
) -> Selected:
    """Resolve the names and selectors of a selection.

    Args:
        graph: the datasets to select from.
        selection: what the user wants.
        naming: resolves names to qualified ones.
        modified: finds the datasets of ``state:modified``.

    Raises:
        PipelineError: GRAPH.ONLY_VIEWS, if an update would store nothing.
        Problems: unknown names, selectors that match nothing, names in both lists or together with a refresh of
            everything, a table that may not be reset, an invalid start; an unavailable source of a table to clear or of
            a flow to reset.
    """
    matching = Matching(graph, naming, modified)
    known = matching.selectable
    if not known:
        raise PipelineError("GRAPH.ONLY_VIEWS")
    problems: list[PipelineError] = []
    full = _found(matching, selection.full_refresh, problems)
    refresh = _found(matching, selection.refresh, problems)
    excluded = _found(matching, selection.exclude, problems).all
    starts = _starts(matching, selection.reset_checkpoint, excluded, problems)
    protected = frozenset(name for name, dataset in known.items() if dataset.kind.has_flows and not dataset.resettable)
    if selection.full_refresh_all and (given := (*selection.refresh, *selection.full_refresh)):
        problems.append(PipelineError("SELECTION.CONFLICT", names=", ".join(f'"{name}"' for name in given)))
    problems += [PipelineError("SELECTION.OVERLAP", name=name) for name in sorted(full.named & refresh.named)]
    problems += [
        PipelineError("SELECTION.NOT_RESETTABLE", location=known[name].location, name=name)
        for name in sorted(full.named & protected - excluded)
    ]
    is_everything = selection.full_refresh_all or not (
        selection.refresh or selection.full_refresh or selection.selects_nothing
    )
    chosen = (frozenset(known) if is_everything else full.all | refresh.all) - excluded
    if excluded and not chosen and (is_everything or full.all | refresh.all):
        problems.append(PipelineError("SELECTION.ALL_EXCLUDED", names=", ".join(selection.exclude)))
    # Persisted views: each refresh stores their definitions, and there are no rows to clear.
    fed = frozenset(name for name, dataset in known.items() if dataset.kind.has_flows)
    cleared = (fed if selection.full_refresh_all else full.all & fed) - protected - excluded
    raise_all(problems + _unavailable_problems(graph, cleared))
    kept = protected & chosen if selection.full_refresh_all else protected & full.all - excluded
    return Selected(chosen, cleared, kept, starts, selection.accept_data_loss)


def exact_selection(selection: Selection, selected: Selected) -> Selection:
    """The same selection with the names that its selectors have found, so that it means the same in any later plan."""
    if selection.is_exact:
        return selection
    resets = tuple(f"{flow}={start}" for flow, start in selected.starts.items())
    exact = replace(selection, reset_checkpoint=resets, exclude=())
    if not (selection.refresh or selection.full_refresh or selection.exclude):
        return exact
    return replace(
        exact,
        refresh=tuple(map(str, sorted(selected.refresh - selected.full_refresh))),
        full_refresh=tuple(map(str, sorted(selected.full_refresh))),
        full_refresh_all=False,
        selects_nothing=not selected.refresh,
    )


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


def _unavailable_problems(graph: ResolvedGraph, cleared: frozenset[QualifiedName]) -> list[PipelineError]:
    """Why tables cannot be cleared: their sources must be available to compute them again."""
    return distinct_errors(
        unavailable
        for unavailable in graph.unavailable
        if unavailable.target in cleared and unavailable.target in graph.unavailable_datasets
    )


@dataclass(frozen=True)
class _Found:
    """The datasets of some selectors: those that the user named one by one, and the others."""

    named: frozenset[QualifiedName]
    matched: frozenset[QualifiedName]

    @property
    def all(self) -> frozenset[QualifiedName]:
        return self.named | self.matched


def _found(matching: Matching, texts: Iterable[str], problems: list[PipelineError]) -> _Found:
    named: set[QualifiedName] = set()
    matched: set[QualifiedName] = set()
    for text in texts:
        try:
            selector = parse_selector(text)
            found = matching.find(selector)
        except PipelineError as problem:
            problems.append(problem)
            continue
        selectable = found & matching.selectable.keys()
        if found and not selectable:
            reason = "it matches only temporary views, which store nothing"
            problems.append(PipelineError("SELECTION.NO_MATCH", selector=selector, reason=reason))
        (named if selector.is_plain else matched).update(selectable)
    alone = _without_their_flow(matching.graph, named | matched)
    problems += [
        PipelineError("SELECTION.MEMBER", name=name, targets=members) for name, members in sorted(alone.items())
    ]
    sinks = {member for dataset in matching.graph.datasets for member in dataset.members}
    unfed = frozenset(name for name in sinks if not matching.graph.flows_into(name))
    return _Found(frozenset(named) - unfed, frozenset(matched) - unfed)


def _without_their_flow(graph: ResolvedGraph, names: Collection[QualifiedName]) -> dict[QualifiedName, QualifiedName]:
    """Sinks whose flow also feeds others, while the dataset that the flow writes to is not selected; each with it."""
    return {
        member: dataset.name
        for dataset in graph.datasets
        for member in dataset.members
        if member in names and dataset.name not in names and not graph.flows_into(member)
    }


def _starts(
    matching: Matching, texts: Iterable[str], excluded: frozenset[QualifiedName], problems: list[PipelineError]
) -> dict[str, Start]:
    found: dict[str, Start] = {}
    for text in texts:
        try:
            flows, start = _reset_flows(matching, text, excluded)
        except (PipelineError, Problems) as error:
            problems += problems_of(error)
            continue
        twice = [name for name in flows if found.get(name, start) != start]
        problems += [PipelineError("RESET.TWICE", flow=name, first=found[name], second=start) for name in twice]
        found = {**dict.fromkeys(flows, start), **found}
    return found


def _reset_flows(matching: Matching, text: str, excluded: frozenset[QualifiedName]) -> tuple[Sequence[str], Start]:
    """The flows that one text names or selects, and where they start."""
    unavailable = {flow.name: flow for flow in matching.graph.unavailable if flow.dataset.kind.has_flows}
    known = [*(flow.name for flow in matching.graph.stored_flows), *unavailable]
    # The name of a flow may contain an equals sign.
    whole = _flow_name(text, known, matching.naming)
    named, equals, choice = (text, "", "") if whole is not None else text.rpartition("=")
    flow_text = named if equals or whole else text
    flow = whole or _flow_name(flow_text, known, matching.naming)
    start = parse_start(choice) if equals else EARLIEST
    if flow is None and not is_plain_name(flow_text):
        # So may the value of a selector, such as a path.
        return _resettable_flows(matching, text if start is None else flow_text, excluded), start or EARLIEST
    if flow is None:
        raise PipelineError("RESET.UNKNOWN_FLOW", flow=flow_text, suggestion=did_you_mean(flow_text, known))
    if flow in unavailable:
        raise unavailable[flow].error
    if start is None:
        raise PipelineError("RESET.BAD_START", flow=flow, start=choice)
    return [flow], start


def _resettable_flows(matching: Matching, text: str, excluded: frozenset[QualifiedName]) -> Sequence[str]:
    """The flows of the datasets of a selector whose checkpoints can be reset."""
    problems: list[PipelineError] = []
    targets = _found(matching, [text], problems).all
    raise_all(problems)
    flows = [
        flow.name
        for flow in matching.graph.stored_flows
        if flow.target in targets - excluded and isinstance(flow, RestartableFlow)
    ]
    if targets and not flows:
        reason = "no stream writes to it whose checkpoint can be reset"
        raise PipelineError("SELECTION.NO_MATCH", selector=text, reason=reason)
    return flows


def _flow_name(text: str, names: Collection[str], naming: Naming) -> str | None:
    """The flow of a text among *names*. A flow without its own name has its dataset's, in any spelling."""
    if text in names:
        return text
    try:
        dataset = str(naming.canonical(text))
    except InvalidName:
        return None
    return next((name for name in names if name.casefold() == dataset.casefold()), None)
