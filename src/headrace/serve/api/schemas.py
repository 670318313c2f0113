"""The JSON schemas of what the API takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from headrace.project.requests.request import RequestState
from headrace.serve.api.row_shapes import ROW_SHAPES
from headrace.serve.api.schedule_shapes import SCHEDULE_SHAPES
from headrace.serve.api.shapes import SHAPES, Shape
from headrace.serve.roles import Role

Schema: TypeAlias = dict[str, Any]

_WORDS: Mapping[str, Schema] = {
    "text": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
    "number": {"type": "number"},
    "whole": {"type": "integer"},
    "flag": {"type": "boolean"},
    "object": {"type": "object"},
    "health": {"type": "string", "enum": ["ok", "unknown", "warn", "bad"]},
    "any": {},
}


def schema_of(shape: Shape) -> Schema:
    """The schema of a shape. All fields of an object are required; more may come in later versions."""
    if isinstance(shape, list):
        return {"type": "array", "items": schema_of(shape[0])}
    if isinstance(shape, Mapping):
        if set(shape) == {"*"}:
            return {"type": "object", "additionalProperties": schema_of(shape["*"])}
        properties = {name: schema_of(one) for name, one in shape.items()}
        return {"type": "object", "required": sorted(properties), "properties": properties}
    word = shape.removesuffix("?")
    found = {"$ref": f"#/components/schemas/{word[1:]}"} if word.startswith("#") else dict(_WORDS[word])
    if word == shape:
        return found
    return {**found, "type": [found["type"], "null"]} if "type" in found else {"anyOf": [found, {"type": "null"}]}


def schemas() -> Mapping[str, Schema]:
    """The schemas that routes name."""
    return {
        "Role": {"type": "string", "enum": [role.value for role in Role]},
        "RequestState": {"type": "string", "enum": [state.value for state in RequestState]},
        **{name: schema_of(shape) for name, shape in {**SHAPES, **ROW_SHAPES, **SCHEDULE_SHAPES}.items()},
    }
