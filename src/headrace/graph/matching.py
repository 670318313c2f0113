"""Finds the datasets of a resolved graph that a selector describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from headrace.errors import PipelineError
from headrace.graph.dependencies import with_inputs, with_readers
from headrace.graph.external_sources import reads_source
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.selectors import Method, Selector
from headrace.model.datasets import Dataset, Kind
from headrace.model.names import InvalidName, Naming, QualifiedName
from headrace.model.tags import tags_of
from headrace.options.nearest import did_you_mean

MODIFIED = "modified"
# A word for both kinds of views.
_VIEW = "view"
_KINDS = tuple(kind for kind in Kind if kind is not Kind.TABLE)


@dataclass(frozen=True)
class Matching:
    """Matches selectors with the datasets of one graph.

    Attributes:
        graph: the datasets, including those with unavailable sources.
        naming: resolves the spellings of names.
        modified: finds the datasets whose code or settings differ from what is deployed; called only if asked for.
    """

    graph: ResolvedGraph
    naming: Naming
    modified: Callable[[], frozenset[QualifiedName]]

    def find(self, selector: Selector) -> frozenset[QualifiedName]:
        """The datasets of a selector, also views and sinks that cannot be selected alone.

        Only ``state:modified`` may find none.

        Raises:
            PipelineError: SELECTION.*, if nothing matches.
        """
        found = self._find(selector)
        above = with_inputs(self.graph, found) if selector.above else frozenset()
        below = with_readers(self.graph, found) if selector.below else frozenset()
        return found | above | below

    @cached_property
    def selectable(self) -> Mapping[QualifiedName, Dataset]:
        """Everything that an update can select: what it stores something for."""
        return {name: dataset for name, dataset in self._datasets.items() if dataset.kind.has_storage}

    @cached_property
    def _datasets(self) -> Mapping[QualifiedName, Dataset]:
        return {d.name: d.dataset for d in self.graph.datasets} | self.graph.unavailable_datasets

    def _find(self, selector: Selector) -> frozenset[QualifiedName]:
        match selector.method:
            case Method.NAME:
                return frozenset({self._named(selector)})
            case Method.TAG:
                return self._tagged(selector)
            case Method.KIND:
                return self._of_kind(selector)
            case Method.SOURCE:
                return self._reading(selector)
            case Method.STATE:
                return self._in_state(selector)

    def _named(self, selector: Selector) -> QualifiedName:
        try:
            name = self.naming.canonical(selector.value)
        except InvalidName:
            name = QualifiedName(selector.value)
        known = self._datasets if selector.above or selector.below else self.selectable
        if name in known:
            return known[name].name
        if name in self._datasets:
            raise PipelineError("SELECTION.VIEW", name=name, reading=f"{name}+")
        suggestion = did_you_mean(selector.value, [str(other) for other in known])
        raise PipelineError("SELECTION.UNKNOWN", name=selector.value, suggestion=suggestion)

    def _tagged(self, selector: Selector) -> frozenset[QualifiedName]:
        tags = {name: tags_of(dataset.properties) for name, dataset in self._datasets.items()}
        wanted = selector.value.casefold()
        found = frozenset(name for name, words in tags.items() if wanted in map(str.casefold, words))
        if not found:
            known = list(dict.fromkeys(word for words in tags.values() for word in words))
            suggestion = did_you_mean(selector.value, known, "The tags are") or "No dataset has tags."
            raise PipelineError("SELECTION.UNKNOWN_TAG", tag=selector.value, suggestion=suggestion)
        return found

    def _of_kind(self, selector: Selector) -> frozenset[QualifiedName]:
        word = "_".join(selector.value.casefold().replace("-", " ").replace("_", " ").split())
        kinds = [kind for kind in _KINDS if kind.value == word or (word == _VIEW and kind.is_view)]
        if not kinds:
            known = [*(kind.value for kind in _KINDS), _VIEW]
            suggestion = did_you_mean(word, known, "The kinds are")
            raise PipelineError("SELECTION.UNKNOWN_KIND", kind=selector.value, suggestion=suggestion)
        found = frozenset(name for name, dataset in self._datasets.items() if dataset.kind in kinds)
        if not found:
            raise PipelineError("SELECTION.NO_MATCH", selector=selector, reason="the pipeline has no such dataset")
        return found

    def _reading(self, selector: Selector) -> frozenset[QualifiedName]:
        found = frozenset(flow.target for flow in self.graph.flows if reads_source(flow.analysis, selector.value))
        if not found:
            reason = "no flow reads an external source with such a name, path or kind"
            raise PipelineError("SELECTION.NO_MATCH", selector=selector, reason=reason)
        return found

    def _in_state(self, selector: Selector) -> frozenset[QualifiedName]:
        if selector.value.casefold() != MODIFIED:
            raise PipelineError("SELECTION.UNKNOWN_STATE", state=selector.value)
        return self.modified()
