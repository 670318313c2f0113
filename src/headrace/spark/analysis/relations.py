"""What a plan reads of files and of Delta tables as a batch: the indexes that say which files these are.

Source: Spark's ``HadoopFsRelation``, Delta's ``TahoeLogFileIndex``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.spark.jvm.plan_nodes import node_kind

_RELATION, _DELTA_INDEX = "LogicalRelation", "TahoeLogFileIndex"
_FILES = "HadoopFsRelation"


def file_index(leaf: Any) -> Any:
    """The index of the files that a leaf reads as a batch; None for any other leaf."""
    if leaf.isStreaming() or node_kind(leaf) != _RELATION:
        return None
    relation = leaf.relation()
    # Delta's is a class of its own that extends Spark's.
    return relation.location() if any(kind.getSimpleName() == _FILES for kind in _kinds(relation)) else None


def delta_index(leaf: Any) -> Any:
    """The same, for a Delta table alone."""
    index = file_index(leaf)
    return index if index is not None and node_kind(index) == _DELTA_INDEX else None


def newest_of_table(leaf: Any) -> str | None:
    """The local path of a Delta table that a leaf reads whole, as it is now; None for any other leaf."""
    index = delta_index(leaf)
    if index is None or index.isTimeTravelQuery() or not index.partitionFilters().isEmpty():
        return None
    place = index.path().toUri()
    return str(place.getPath()) if place.getScheme() in (None, "file") else None


def _kinds(item: Any) -> Iterator[Any]:
    """The class of an object of Java, and those that it extends."""
    kind = item.getClass()
    while kind is not None:
        yield kind
        kind = kind.getSuperclass()
