"""Spark's plans and expressions as Python values, from the JSON that a plan has of itself.

To ask the JVM for each part of a wide query would take seconds.
Source: Spark's ``TreeNode.toJSON``: the nodes of a tree in pre-order, each with its constructor's arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_CLASS, _CHILDREN = "class", "num-children"


@dataclass(frozen=True, eq=False)
class TreeNode:
    """A node of a plan or of an expression.

    Attributes:
        kind: the name of its class, without the package.
        fields: the arguments of its constructor as JSON; children are numbers.
        children: the nodes below it.
    """

    kind: str
    fields: Mapping[str, Any]
    children: tuple[TreeNode, ...]

    def trees(self, name: str) -> tuple[TreeNode, ...]:
        """The trees in a list among the fields; lists of lists are flattened.

        Raises:
            KeyError: the node has no such field.
            ValueError: the field is no list of trees.
        """
        return tuple(_trees(self.fields[name], self.children))

    def tree(self, name: str) -> TreeNode | None:
        """The tree in a field; None if the field is empty or missing.

        Raises:
            ValueError: the field is something else.
        """
        found = tuple(_trees(self.fields.get(name) or [], self.children))
        return found[0] if found else None

    @property
    def expr_id(self) -> int:
        """The number of an attribute or of a named expression.

        Raises:
            KeyError: it has none.
        """
        return int(self.fields["exprId"]["id"])


def parsed(text: str) -> TreeNode:
    """The tree of the text of ``toJSON``.

    Raises:
        ValueError: it is something else.
    """
    return _tree(json.loads(text))


def post_order(root: TreeNode, is_leaf: Callable[[TreeNode], bool] = lambda _node: False) -> Iterator[TreeNode]:
    """The nodes of a tree, each after those below it, from left to right; plans may be deeper than Python's stack.

    Args:
        root: the tree.
        is_leaf: true for a node below which nothing is visited.
    """
    pending: list[tuple[TreeNode, bool]] = [(root, False)]
    while pending:
        node, is_done = pending.pop()
        if is_done or not node.children or is_leaf(node):
            yield node
        else:
            pending.append((node, True))
            pending.extend((child, False) for child in reversed(node.children))


def _tree(nodes: Sequence[Mapping[str, Any]]) -> TreeNode:
    """The tree of its nodes in pre-order: from the last one on, what is below a node comes before it."""
    done: list[TreeNode] = []
    for fields in reversed(nodes):
        count = int(fields[_CHILDREN])
        if count > len(done):
            raise ValueError("the nodes of a plan are incomplete")
        children = tuple(reversed(done[len(done) - count :])) if count else ()
        del done[len(done) - count :]
        done.append(TreeNode(_kind(fields[_CLASS]), fields, children))
    if len(done) != 1:
        raise ValueError("the nodes of a plan are no tree")
    return done[0]


@lru_cache(maxsize=1000)
def _kind(name: str) -> str:
    """The name of a class without its package."""
    return name.rstrip("$").rpartition(".")[2].rpartition("$")[2]


def _trees(value: Any, children: Sequence[TreeNode]) -> Iterator[TreeNode]:
    if isinstance(value, bool) or not isinstance(value, int | list):
        raise ValueError("a field of a plan has no expressions")  # noqa: TRY004 - the JSON is of another form
    if isinstance(value, int):
        yield children[value]
    elif value and isinstance(value[0], dict) and _CLASS in value[0] and _CHILDREN in value[0]:
        yield _tree(value)
    else:
        for item in value:
            yield from _trees(item, children)
