"""Which flows an update runs, from the names that the user gave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.errors import PipelineError, Problems
from headrace.graph.build import did_you_mean
from headrace.graph.resolved import ResolvedGraph
from headrace.model.names import InvalidName, Naming, QualifiedName


@dataclass(frozen=True)
class Selection:
    """What to refresh as the user asked; empty means everything."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False


@dataclass(frozen=True)
class Selected:
    """Datasets to refresh and those to clear first; a selection is not widened to what they read."""

    refresh: frozenset[QualifiedName]
    full_refresh: frozenset[QualifiedName]
    # Protected by pipelines.reset.allowed=false, so only refreshed by a full refresh of everything.
    kept: frozenset[QualifiedName] = frozenset()

    def without(self, names: frozenset[QualifiedName]) -> Selected:
        """The same but for *names*, which are left as they are."""
        return Selected(self.refresh - names, self.full_refresh - names, self.kept)


def select(graph: ResolvedGraph, selection: Selection, naming: Naming) -> Selected:
    """The datasets behind a selection.

    Raises:
        Problems: unknown names, names in both lists, a table that may not be reset.
    """
    stored = {dataset.name: dataset for dataset in graph.datasets if dataset.kind.stored}
    if selection.full_refresh_all:
        kept = frozenset(name for name, dataset in stored.items() if not dataset.dataset.resettable)
        return Selected(frozenset(stored), frozenset(stored) - kept, kept)
    problems: list[PipelineError] = []
    full = _names(selection.full_refresh, graph, naming, problems)
    refresh = _names(selection.refresh, graph, naming, problems)
    problems += [PipelineError("SELECTION.OVERLAP", name=name) for name in sorted(full & refresh)]
    for name in sorted(full):
        if name in stored and not stored[name].dataset.resettable:
            problems.append(
                PipelineError("SELECTION.NOT_RESETTABLE", location=stored[name].dataset.location, name=name)
            )
    if problems:
        raise Problems(problems)
    if not full and not refresh:
        return Selected(frozenset(stored), frozenset())
    return Selected(refresh | full, full)


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
        if dataset is None or not dataset.kind.stored:
            known = [str(d.name) for d in graph.datasets if d.kind.stored]
            problems.append(PipelineError("SELECTION.UNKNOWN", name=text, suggestion=did_you_mean(text, known)))
        else:
            found.add(dataset.name)
    return frozenset(found)
