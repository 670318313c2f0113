"""What depends on what: everything that a dataset reads, and everything that reads it, directly or indirectly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.graph.resolved import ResolvedGraph
from headrace.model.names import QualifiedName


def with_readers(graph: ResolvedGraph, names: Iterable[QualifiedName]) -> frozenset[QualifiedName]:
    """Datasets and all below them. The sinks that share a flow are below the dataset that the flow writes to."""
    return _reachable(names, _readers(graph))


def readers_below(graph: ResolvedGraph, names: Iterable[QualifiedName]) -> frozenset[QualifiedName]:
    """All below datasets, without the datasets themselves unless one is below another."""
    readers = _readers(graph)
    return _reachable((reader for name in names for reader in readers.get(name, ())), readers)


def with_inputs(graph: ResolvedGraph, names: Iterable[QualifiedName]) -> frozenset[QualifiedName]:
    """Datasets and all above them."""
    inputs: dict[QualifiedName, list[QualifiedName]] = {}
    for read, reader in _edges(graph):
        inputs.setdefault(reader, []).append(read)
    return _reachable(names, inputs)


def _readers(graph: ResolvedGraph) -> dict[QualifiedName, list[QualifiedName]]:
    readers: dict[QualifiedName, list[QualifiedName]] = {}
    for read, reader in _edges(graph):
        readers.setdefault(read, []).append(reader)
    return readers


def _edges(graph: ResolvedGraph) -> Iterator[tuple[QualifiedName, QualifiedName]]:
    """Each dataset that is read, with its reader."""
    for flow in graph.flows:
        yield from ((given.name, flow.target) for given in flow.analysis.inputs)
    for unavailable in graph.unavailable:
        if unavailable.reads is not None:
            yield unavailable.reads, unavailable.target
    for dataset in graph.datasets:
        yield from ((dataset.name, member) for member in dataset.members)


def _reachable(
    names: Iterable[QualifiedName], following: Mapping[QualifiedName, list[QualifiedName]]
) -> frozenset[QualifiedName]:
    found: set[QualifiedName] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += following.get(name, ())
    return frozenset(found)
