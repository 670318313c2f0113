"""The file indexes of files and Delta tables that a plan reads as a batch.

Source: Spark's ``HadoopFsRelation``, Delta's ``TahoeLogFileIndex``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.spark.jvm.plan_nodes import node_kind

_RELATION, _DELTA_INDEX = "LogicalRelation", "TahoeLogFileIndex"
_FILES = "HadoopFsRelation"


def file_index(leaf: Any) -> Any:
    """The file index of a leaf that reads files as a batch; None for any other leaf."""
    if leaf.isStreaming() or node_kind(leaf) != _RELATION:
        return None
    relation = leaf.relation()
    # Delta's relation is a class that extends Spark's.
    return relation.location() if any(kind.getSimpleName() == _FILES for kind in _kinds(relation)) else None


def delta_index(leaf: Any) -> Any:
    """The same, for Delta tables only."""
    index = file_index(leaf)
    return index if index is not None and node_kind(index) == _DELTA_INDEX else None


def latest_table_path(leaf: Any) -> str | None:
    """The local path of a Delta table whose latest version a leaf reads as a whole; None for any other leaf."""
    index = delta_index(leaf)
    if index is None or index.isTimeTravelQuery() or not index.partitionFilters().isEmpty():
        return None
    uri = index.path().toUri()
    return str(uri.getPath()) if uri.getScheme() in (None, "file") else None


def _kinds(item: Any) -> Iterator[Any]:
    """The class of a Java object and its superclasses."""
    kind = item.getClass()
    while kind is not None:
        yield kind
        kind = kind.getSuperclass()
