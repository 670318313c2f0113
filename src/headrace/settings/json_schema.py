"""The table of keys as a JSON schema, for editors: completion, descriptions, and problems while one types.

Draft 7 is what the language servers of editors read. Law: a file that the checker accepts is valid; a file in which the
checker finds an unknown, refused or missing key, or a value of a wrong type, is not. The checker also compares values
with each other, which no schema can.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from headrace.options.option import Treatment
from headrace.settings.key import OFF_WORDS, Key, KeyTable, ValueType
from headrace.settings.keys import SETTINGS

# Where a project keeps its copy, relative to the settings file; the comment makes editors read it.
SCHEMA_FILE = ".headrace/pipeline.schema.json"
EDITOR_COMMENT = f"# yaml-language-server: $schema={SCHEMA_FILE}"

_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
# What a refused key may have.
_EMPTY: tuple[Any, ...] = (None, False, "", [], {})
# YAML 1.1 reads `off` without quotes as false.
_OFF = (*({"const": word} for word in OFF_WORDS), {"const": False}, {"type": "null"})
_OTHER_VALUES: Mapping[ValueType, dict[str, Any]] = {
    ValueType.SCALAR: {"type": ["string", "number", "boolean"]},
    ValueType.BOOLEAN: {"type": "boolean"},
    ValueType.DECIMAL: {"type": "number"},
    ValueType.TEXTS: {"type": "array", "items": {"type": "string"}},
    ValueType.MAP: {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    ValueType.ANY_MAP: {"type": "object"},
    ValueType.ANY_LIST: {"type": "array"},
}


def settings_schema() -> dict[str, Any]:
    """The schema of ``pipeline.yml``, as one JSON object."""
    return document_schema(SETTINGS, "Settings of a Headrace pipeline")


def document_schema(table: KeyTable, title: str) -> dict[str, Any]:
    """The schema of the documents whose keys are in *table*, as one JSON object."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **_section("", table)}


@cache
def schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n"


def _section(path: str, table: KeyTable) -> dict[str, Any]:
    """The schema of a mapping with known keys."""
    keys = table.below(path)
    # The keys of a profile are those of the top level.
    properties = {
        name: {"$ref": f"#/properties/{name}"} if path and not key.parent else _key(key, table)
        for name, key in keys.items()
    }
    required = [name for name, key in keys.items() if key.required]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _key(key: Key, table: KeyTable) -> dict[str, Any]:
    about, default = (_LINK.sub(r"\1", text) for text in (key.about, key.default))
    default = f" Default: {default}." if default else ""
    match key.treatment:
        case Treatment.USED:
            return {"description": about + default, **_nullable(_value(key, table), required=key.required)}
        case Treatment.ACCEPTED:
            remark = f"Has no effect: {key.reason}."
            described = {"description": f"{about} {remark}", "deprecationMessage": remark}
            return {**described, **_nullable(_value(key, table), required=False)}
        case Treatment.REFUSED:
            remark = f"Refused: {key.reason}. {key.fix}"
            described = {"description": f"{about} {remark}", "errorMessage": remark, "deprecationMessage": remark}
            return {**described, "enum": list(_EMPTY), "doNotSuggest": True}


def _value(key: Key, table: KeyTable) -> dict[str, Any]:
    """The schema of a value that is not null."""
    match key.type:
        case ValueType.TEXT:
            pattern = {"pattern": key.pattern} if key.pattern else {}
            return {"type": "string", **pattern, **({"enum": list(key.choices)} if key.choices else {})}
        case ValueType.TEXTS if key.choices:
            return {"type": "array", "items": {"type": "string", "enum": list(key.choices)}}
        case ValueType.NUMBER:
            return {"type": "integer", **({} if key.least is None else {"minimum": key.least})}
        case ValueType.SECTION:
            return _section(key.path, table)
        case ValueType.TEXT_OR_SECTION:
            return {"anyOf": [{"type": "string"}, _section(key.path, table)]}
        case ValueType.SECTIONS:
            return {"type": "array", "items": _section(f"{key.path}[]", table)}
        case ValueType.NAMED_SECTIONS:
            return {"type": "object", "additionalProperties": _or_null(_section(f"{key.path}.*", table))}
        case ValueType.SWITCHED_SECTIONS:
            items = [_section(f"{key.path}.*", table), *_OFF]
            return {"type": "object", "additionalProperties": {"anyOf": items}}
        case _:
            return _OTHER_VALUES[key.type]


def _nullable(schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    """A null value is the same as no value, which a required key does not allow."""
    return schema if required else _or_null(schema)


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema and "type" not in schema:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*types, "null"], **choices}
