"""Where the nodes and edges of a graph are drawn: in layers, from its sources on the left to its ends on the right.

Longest paths give the layers, dummies carry long edges through the layers between, sweeps of barycentres give the order
within a layer, and least squares give the heights. Pure, and without a library: 1,000 nodes take well under a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

# More sweeps hardly change the order of any graph that was tried.
_SWEEPS = 6
# How many times the heights of the layers are fitted to each other.
_FITS = 4


@dataclass(frozen=True)
class Sizes:
    """The sizes of a drawing in pixels.

    Attributes:
        width: of a node.
        height: of a node.
        between_layers: the room between two layers.
        between_nodes: the room between two nodes of a layer.
        margin: around everything.
    """

    width: int = 208
    height: int = 64
    between_layers: int = 72
    between_nodes: int = 20
    margin: int = 16


@dataclass(frozen=True)
class Box:
    """Where a node is: its layer, its left upper corner and its size."""

    name: str
    layer: int
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Line:
    """Where an edge is: the points that it goes through, from the right of a node to the left of another one.

    *is_back* is true for an edge that closes a cycle: it goes from a later layer to an earlier one, or to the same.
    """

    source: str
    target: str
    points: tuple[tuple[int, int], ...]
    is_back: bool = False


@dataclass(frozen=True)
class Drawing:
    """A drawing of a graph, in pixels."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


DEFAULT_SIZES = Sizes()


def draw(nodes: Iterable[str], edges: Iterable[tuple[str, str]], sizes: Sizes = DEFAULT_SIZES) -> Drawing:
    """A drawing of a graph.

    Laws: boxes do not overlap. Each edge goes from a layer to a later one, unless it closes a cycle. Equal nodes and
    edges in the same order have equal drawings.

    Args:
        nodes: their names.
        edges: pairs of names. Edges of a node to itself, repeated ones, and those of unknown nodes are left out.
        sizes: in pixels.
    """
    names = list(dict.fromkeys(nodes))
    known = set(names)
    kept = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1] and known.issuperset(edge)]
    back = _back_edges(names, kept)
    forward = [edge for edge in kept if edge not in back]
    layer_of = _layers(names, forward)
    graph = _Layered(names, forward, layer_of)
    graph.order()
    heights = _heights(graph, sizes)
    return _drawing(graph, heights, sorted(back), sizes)


def neighbours(edges: Iterable[tuple[str, str]], focus: str, hops: int) -> set[str]:
    """The nodes that are at most so many edges away from a node, in either direction; the node is one of them."""
    beside: dict[str, set[str]] = {}
    for source, target in edges:
        beside.setdefault(source, set()).add(target)
        beside.setdefault(target, set()).add(source)
    found, newest = {focus}, {focus}
    for _ in range(hops):
        newest = {one for name in newest for one in beside.get(name, ())} - found
        found |= newest
    return found


def _back_edges(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that close a cycle when the graph is walked in the order of its nodes."""
    targets = _grouped(edges)
    done: set[str] = set()
    back: set[tuple[str, str]] = set()
    for first in names:
        if first in done:
            continue
        path, on_path = [(first, iter(targets.get(first, ())))], {first}
        while path:
            name, following = path[-1]
            following_name = next(following, None)
            if following_name is None:
                path.pop()
                on_path.discard(name)
                done.add(name)
            elif following_name in on_path:
                back.add((name, following_name))
            elif following_name not in done:
                path.append((following_name, iter(targets.get(following_name, ()))))
                on_path.add(following_name)
    return back


def _layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The layer of each node: the number of edges of the longest path that leads to it."""
    targets, missing = _grouped(edges), dict.fromkeys(names, 0)
    for _, target in edges:
        missing[target] += 1
    layer_of = dict.fromkeys(names, 0)
    ready = [name for name in names if not missing[name]]
    for name in ready:
        for target in targets.get(name, ()):
            layer_of[target] = max(layer_of[target], layer_of[name] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return layer_of


def _grouped(edges: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for source, target in edges:
        found.setdefault(source, []).append(target)
    return found


class _Layered:
    """Numbered nodes and dummies in layers; each edge goes from a layer to the next one."""

    def __init__(self, names: Sequence[str], edges: Sequence[tuple[str, str]], layer_of: Mapping[str, int]) -> None:
        self.names = names
        number = {name: index for index, name in enumerate(names)}
        self.layer_of = [layer_of[name] for name in names]
        # The numbers that each edge goes through, both ends included.
        self.chains: dict[tuple[str, str], list[int]] = {}
        for source, target in edges:
            chain = [number[source]]
            for layer in range(layer_of[source] + 1, layer_of[target]):
                chain.append(len(self.layer_of))
                self.layer_of.append(layer)
            self.chains[source, target] = [*chain, number[target]]
        self.before: list[list[int]] = [[] for _ in self.layer_of]
        self.after: list[list[int]] = [[] for _ in self.layer_of]
        for chain in self.chains.values():
            for first, second in pairwise(chain):
                self.after[first].append(second)
                self.before[second].append(first)
        self.layers: list[list[int]] = [[] for _ in range(max(self.layer_of, default=-1) + 1)]
        for index, layer in enumerate(self.layer_of):
            self.layers[layer].append(index)

    def order(self) -> None:
        """Sort each layer by the mean place of the neighbours in the layer beside it, to and fro."""
        place = [0.0] * len(self.layer_of)
        for layer in self.layers:
            _number(layer, place)
        for sweep in range(_SWEEPS):
            forward = sweep % 2 == 0
            beside = self.before if forward else self.after
            for layer in self.layers if forward else reversed(self.layers):
                wanted = {index: _mean([place[one] for one in beside[index]], place[index]) for index in layer}
                # The sort is stable: nodes without neighbours keep their order.
                layer.sort(key=lambda index: wanted[index])
                _number(layer, place)

    def is_dummy(self, index: int) -> bool:
        return index >= len(self.names)


def _number(layer: Sequence[int], place: list[float]) -> None:
    # Layers of different sizes are compared by the middle of their places.
    for position, index in enumerate(layer):
        place[index] = position - (len(layer) - 1) / 2


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _heights(graph: _Layered, sizes: Sizes) -> list[float]:
    """The height of the middle of each node and dummy."""
    half = [0.0 if graph.is_dummy(index) else sizes.height / 2 for index in range(len(graph.layer_of))]
    heights = [0.0] * len(half)
    apart: list[list[float]] = []
    for layer in graph.layers:
        # How far the middle of each one is below that of the first one, at least.
        offsets = [0.0]
        for first, second in pairwise(layer):
            offsets.append(offsets[-1] + half[first] + half[second] + sizes.between_nodes)
        apart.append(offsets[: len(layer)])
        middle = offsets[-1] / 2
        for index, offset in zip(layer, offsets, strict=False):
            heights[index] = offset - middle
    for fit in range(_FITS):
        forward = fit % 2 == 0
        beside = graph.before if forward else graph.after
        order = range(len(graph.layers))
        for number in order if forward else reversed(order):
            layer, offsets = graph.layers[number], apart[number]
            wanted = [_mean([heights[one] for one in beside[index]], heights[index]) for index in layer]
            for index, height in zip(layer, _fitted(wanted, offsets), strict=True):
                heights[index] = height
    return heights


def _fitted(wanted: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """The heights nearest to the wanted ones, by least squares, that keep the order and the distances.

    Without the distances, they must not decrease: neighbours that would are pooled to their mean.
    """
    pools: list[tuple[float, int]] = []
    for value, offset in zip(wanted, offsets, strict=True):
        total, size = value - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / size:
            more, others = pools.pop()
            total, size = total + more, size + others
        pools.append((total, size))
    means = [total / size for total, size in pools for _ in range(size)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _drawing(graph: _Layered, heights: Sequence[float], back: Sequence[tuple[str, str]], sizes: Sizes) -> Drawing:
    top = min((heights[index] for index in range(len(heights))), default=0.0) - sizes.height / 2
    step = sizes.width + sizes.between_layers

    def left(index: int) -> int:
        return sizes.margin + graph.layer_of[index] * step

    def middle(index: int) -> int:
        return round(heights[index] - top) + sizes.margin

    boxes = {
        name: Box(
            name, graph.layer_of[index], left(index), middle(index) - sizes.height // 2, sizes.width, sizes.height
        )
        for index, name in enumerate(graph.names)
    }
    lines = []
    for (source, target), chain in graph.chains.items():
        points = [(left(chain[0]) + sizes.width, middle(chain[0]))]
        for index in chain[1:-1]:
            points += [(left(index), middle(index)), (left(index) + sizes.width, middle(index))]
        lines.append(Line(source, target, (*points, (left(chain[-1]), middle(chain[-1])))))
    for source, target in back:
        one, other = boxes[source], boxes[target]
        start, end = (one.x + one.width, one.y + one.height // 2), (other.x, other.y + other.height // 2)
        lines.append(Line(source, target, (start, end), is_back=True))
    bottom = max((middle(index) for index in range(len(heights))), default=0) + sizes.height // 2
    width = 2 * sizes.margin + max(len(graph.layers) * step - sizes.between_layers, 0)
    return Drawing(width, bottom + sizes.margin, tuple(boxes.values()), tuple(lines))
