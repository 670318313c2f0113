"""What the columns of a query are that no table can have, or that other readers of Delta do not open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headrace.errors import PipelineError
from headrace.graph.new_tables import has_special_names, maps_names
from headrace.model.datasets import Dataset, Flow
from headrace.model.schema import Column, Schema

# How deep the JSON of a schema may nest: readers in Rust stop at 127 (serde_json), three of which are for quarantine,
# whose rows are in a column.
_DEEPEST = 124
# Of the JSON of a schema, what is around the type of a column; and a struct, an array or map.
_AROUND, _STRUCT, _LIST = 3, 3, 1


def column_problems(dataset: Dataset, flow: Flow, schema: Schema) -> list[PipelineError]:
    """What stands against storing the columns that a flow returns; nothing for a dataset that is no table."""
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
    """Codes of what is wrong with a column, each with the place inside of it."""
    kind = json.loads(column.json_type)
    nothing = _place(kind, (column.name,), lambda one: one == "void")
    if nothing is not None:
        yield "DATASET.NO_TYPE", ".".join(nothing)
    if _AROUND + _depth(kind) > _DEEPEST:
        yield "DATASET.TOO_DEEP", column.name
    if any("\0" in name for name in _names(column.name, kind)):
        yield "DATASET.COLUMN_NAME", column.name
    elif unmapped and has_special_names(Schema((column,))):
        yield "DATASET.UNMAPPED_NAME", column.name


def _place(kind: Any, path: tuple[str, ...], wanted: Any) -> tuple[str, ...] | None:
    """The first place in a type that holds a type of a sort, as a path of names."""
    if wanted(kind):
        return path
    return next((place for name, inner in _inner(kind) if (place := _place(inner, (*path, name), wanted))), None)


def _inner(kind: Any) -> Iterator[tuple[str, Any]]:
    """The types that a type is made of, each with its name."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield field["name"], field["type"]
    for side, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
        if side in kind:
            yield name, kind[side]


def _depth(kind: Any) -> int:
    """How deep the JSON of a type nests."""
    if not isinstance(kind, dict):
        return 0
    own = _STRUCT if kind["type"] == "struct" else _LIST
    return own + max((_depth(inner) for _, inner in _inner(kind)), default=0)


def _names(name: str, kind: Any) -> Iterator[str]:
    yield name
    for inner, one in _inner(kind):
        yield from _names(inner, one)
