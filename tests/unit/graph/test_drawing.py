"""The layout of a graph: what holds for every drawing, whatever the graph."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headrace.graph.drawing import DEFAULT_SIZES, draw, neighbours

NAMES = [f"n{number}" for number in range(14)]
NODES = st.lists(st.sampled_from(NAMES), unique=True)
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=40)
# Each edge leads to a later name, so that there is no cycle.
ACYCLIC = EDGES.map(lambda edges: [(min(edge), max(edge)) for edge in edges])


def overlap(one, other):
    beside = one.x + one.width <= other.x or other.x + other.width <= one.x
    below = one.y + one.height <= other.y or other.y + other.height <= one.y
    return not (beside or below)


@given(NODES, EDGES)
def test_boxes_are_inside_of_the_drawing_and_do_not_overlap(nodes, edges):
    found = draw(nodes, edges)

    assert [box.name for box in found.boxes] == nodes
    assert not any(overlap(one, other) for one, other in combinations(found.boxes, 2))
    assert all(box.x >= 0 and box.x + box.width <= found.width for box in found.boxes)
    assert all(box.y >= 0 and box.y + box.height <= found.height for box in found.boxes)


@given(NODES, ACYCLIC)
def test_each_edge_goes_forward_and_is_there_once(nodes, edges):
    found = draw(nodes, edges)

    layer = {box.name: box.layer for box in found.boxes}
    drawn = [(line.source, line.target) for line in found.lines]
    assert sorted(drawn) == sorted({edge for edge in edges if edge[0] != edge[1] and set(edge) <= set(nodes)})
    assert all(layer[line.source] < layer[line.target] and not line.is_back for line in found.lines)
    assert all(
        start[0] <= end[0] for line in found.lines for start, end in zip(line.points, line.points[1:], strict=False)
    )


@given(NODES, EDGES)
def test_only_edges_that_close_a_cycle_go_back(nodes, edges):
    found = draw(nodes, edges)

    layer = {box.name: box.layer for box in found.boxes}
    assert all(line.is_back or layer[line.source] < layer[line.target] for line in found.lines)
    assert {(line.source, line.target) for line in found.lines} == {
        edge for edge in edges if edge[0] != edge[1] and set(edge) <= set(nodes)
    }
    assert draw(nodes, edges) == found


@given(NODES, ACYCLIC)
def test_edges_begin_and_end_at_their_nodes(nodes, edges):
    found = draw(nodes, edges)

    box = {one.name: one for one in found.boxes}
    for line in found.lines:
        source, target = box[line.source], box[line.target]
        assert line.points[0] == (source.x + source.width, source.y + source.height // 2)
        assert line.points[-1] == (target.x, target.y + target.height // 2)


def test_a_chain_is_a_straight_line_and_a_fork_is_around_its_source():
    chain = draw(["a", "b", "c"], [("a", "b"), ("b", "c")])
    fork = draw(["a", "b", "c"], [("a", "b"), ("a", "c")])

    assert len({box.y for box in chain.boxes}) == 1
    source, first, second = fork.boxes
    assert source.y * 2 == first.y + second.y
    assert second.y - first.y == DEFAULT_SIZES.height + DEFAULT_SIZES.between_nodes


def test_the_neighbours_of_a_node_are_those_within_some_hops_in_both_directions():
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("x", "c")]

    assert neighbours(edges, "b", 1) == {"a", "b", "c"}
    assert neighbours(edges, "b", 2) == {"a", "b", "c", "d", "x"}
    assert neighbours(edges, "alone", 3) == {"alone"}
