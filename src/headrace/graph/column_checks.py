"""Checks for columns that a table cannot store, or that other readers of Delta cannot open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.errors import PipelineError
from headrace.graph.new_tables import has_special_names, maps_names
from headrace.model.datasets import Dataset, Flow
from headrace.model.schema import Column, Schema

# Maximum nesting of a schema's JSON. Readers in Rust stop at 127 (serde_json); quarantine needs three, because it
# stores rows in a column.
_MAX_DEPTH = 124
# JSON levels around the type of a column; and of a struct, and of an array or map.
_COLUMN_DEPTH, _STRUCT_DEPTH, _LIST_DEPTH = 3, 3, 1


def column_problems(dataset: Dataset, flow: Flow, schema: Schema) -> list[PipelineError]:
    """Why the columns of a flow cannot be stored; empty if the dataset is not a table."""
    if not dataset.kind.stored:
        return []
    unmapped = maps_names(dataset.properties) is False
    found = [(column, *problem) for column in schema.columns for problem in _problems(column, unmapped=unmapped)]
    return [
        PipelineError(
            code, location=flow.location, name=dataset.name, flow=flow.name, column=column.name, inside=inside
        )
        for column, code, inside in found
    ]


def _problems(column: Column, *, unmapped: bool) -> Iterator[tuple[str, str]]:
    """Codes of the problems of a column, each with the path inside the column."""
    kind = json.loads(column.json_type)
    void_path = _find_path(kind, (column.name,), lambda one: one == "void")
    if void_path is not None:
        yield "DATASET.NO_TYPE", ".".join(void_path)
    if _COLUMN_DEPTH + _depth(kind) > _MAX_DEPTH:
        yield "DATASET.TOO_DEEP", column.name
    if any("\0" in name for name in _names(column.name, kind)):
        yield "DATASET.COLUMN_NAME", column.name
    elif unmapped and has_special_names(Schema((column,))):
        yield "DATASET.UNMAPPED_NAME", column.name


def _find_path(kind: Any, path: tuple[str, ...], matches: Any) -> tuple[str, ...] | None:
    """The path of names to the first part of a type that matches."""
    if matches(kind):
        return path
    return next((found for name, inner in _inner(kind) if (found := _find_path(inner, (*path, name), matches))), None)


def _inner(kind: Any) -> Iterator[tuple[str, Any]]:
    """The direct parts of a type, each with its name."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield field["name"], field["type"]
    for side, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
        if side in kind:
            yield name, kind[side]


def _depth(kind: Any) -> int:
    """The nesting depth of a type's JSON."""
    if not isinstance(kind, dict):
        return 0
    own = _STRUCT_DEPTH if kind["type"] == "struct" else _LIST_DEPTH
    return own + max((_depth(inner) for _, inner in _inner(kind)), default=0)


def _names(name: str, kind: Any) -> Iterator[str]:
    yield name
    for inner, one in _inner(kind):
        yield from _names(inner, one)
