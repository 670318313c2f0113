"""Columns: of now, over time, of each version of a table, and of two versions side by side. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.events.recorded import Recorded
from headrace.events.types import DatasetDefined
from headrace.model.field_pairs import pair_fields
from headrace.model.schema import Column, Schema
from headrace.project.inspection.table_history import SchemaVersion
from headrace.serve.formats import iso

_MOST_CHANGES = 50


def column_facts(schema: Schema) -> list[dict[str, Any]]:
    """The columns of a schema."""
    return [
        {"name": one.name, "type": one.type_text, "is_nullable": one.nullable, "comment": one.comment}
        for one in schema.columns
    ]


def schema_of(stored: Mapping[str, Any] | None) -> Schema | None:
    """The schema of a definition in the event log; None if it has none, or one of another version."""
    if not stored:
        return None
    try:
        return Schema.from_json(json.dumps(stored))
    except (LookupError, TypeError, ValueError):
        return None


def changes_between(before: Schema, after: Schema) -> list[dict[str, Any]]:
    """What of the columns differs, in the order of the columns: each with its change, and what it was and is."""
    pairs = pair_fields([*map(_field, before.columns)], [*map(_field, after.columns)])
    changed = [change for old, new in pairs.both for change in _changes(old["column"], new["column"])]
    added = [_change(one["column"].name, "added", None, _text(one["column"])) for one in pairs.added]
    removed = [_change(one["column"].name, "removed", _text(one["column"]), None) for one in pairs.removed]
    return [*added, *removed, *changed]


def schema_history(definitions: Iterable[Recorded]) -> list[dict[str, Any]]:
    """How the columns of a dataset changed from update to update, the newest first.

    Args:
        definitions: of one dataset, the newest first.
    """
    found: list[dict[str, Any]] = []
    newer: tuple[Recorded, Schema] | None = None
    for one in definitions:
        schema = schema_of(one.event.schema) if isinstance(one.event, DatasetDefined) else None
        if schema is None:
            continue
        if newer is not None:
            changes = changes_between(schema, newer[1])
            if changes:
                found.append({"at": iso(newer[0].at), "update_id": newer[0].update_id, "changes": changes})
        newer = one, schema
    if newer is not None:
        first: dict[str, Any] = {"at": iso(newer[0].at), "update_id": newer[0].update_id, "changes": []}
        found.append({**first, "columns": len(newer[1].columns)})
    return found[:_MOST_CHANGES]


def version_facts(versions: Iterable[SchemaVersion]) -> list[dict[str, Any]]:
    """How the columns of a table changed from version to version, in the order of the versions."""
    found: list[dict[str, Any]] = []
    for one in versions:
        changes = [] if one.earlier is None else changes_between(one.earlier, one.schema)
        # What changed only a property of the table changed no column.
        if changes or one.earlier is None:
            made = {"version": one.version, "operation": one.operation, "committed_at": one.committed_at}
            count = len(one.schema.columns)
            found.append({**made, "columns": count, "is_compared": one.earlier is not None, "changes": changes})
    return found


def _field(column: Column) -> dict[str, Any]:
    return {"name": column.name, "column": column}


def _changes(before: Column, after: Column) -> Iterator[dict[str, Any]]:
    if before.name != after.name:
        yield _change(after.name, "renamed", before.name, after.name)
    if before.json_type != after.json_type:
        yield _change(after.name, "type", before.type_text, after.type_text)
    if before.nullable != after.nullable:
        yield _change(after.name, "NULL", _null(before), _null(after))
    if before.comment != after.comment:
        yield _change(after.name, "comment", before.comment, after.comment)


def _change(column: str, change: str, before: str | None, after: str | None) -> dict[str, Any]:
    return {"column": column, "change": change, "before": before, "after": after}


def _text(column: Column) -> str:
    return f"{column.type_text}{'' if column.nullable else ', not NULL'}"


def _null(column: Column) -> str:
    return "allowed" if column.nullable else "not allowed"
