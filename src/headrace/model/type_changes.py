"""The schema changes that a table needs in order to accept the rows of a query, including nested fields."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.model.schema import Schema, type_text

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_INTEGERS = ("byte", "short", "integer", "long")


@dataclass(frozen=True)
class FieldChange:
    """A column or nested field, with its types in the table and in the query.

    ``path`` begins with the column; a struct field adds its name, array elements ``element``, map keys and values
    ``key`` and ``value``, as in ``ALTER TABLE``. ``before`` and ``after`` are types in SQL form; ``before`` is empty
    for a field that the table lacks, ``after`` for one that the query lacks.
    """

    path: tuple[str, ...]
    before: str
    after: str

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class SchemaChange:
    """The change from the schema of a table to one that also accepts a query's rows.

    ``result`` has the table's columns in order, then new ones. ``refused`` are fields without a common type; if there
    are any, the result is unusable. ``relaxed`` are columns that become nullable.
    """

    result: Schema
    added: tuple[FieldChange, ...] = ()
    widened: tuple[FieldChange, ...] = ()
    relaxed: tuple[str, ...] = ()
    refused: tuple[FieldChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the table accepts the rows without changes."""
        return not (self.added or self.widened or self.relaxed or self.refused)


def schema_change(table: Schema, query: Schema) -> SchemaChange:
    """The changes of *table* that make it accept rows of *query* and keep its own.

    A field that only the table has stays, and is NULL in new rows. If the query's type is narrower, the table's type
    stays, because the values fit.
    """
    merge = _TypeMerge()
    columns = []
    for was in table.columns:
        now = query.find(was.name)
        if now is None:
            columns.append(was)
            if not was.nullable:
                merge.refused.append(FieldChange((was.name,), f"{was.type_text} not null", ""))
            continue
        merged = merge.merged((was.name,), json.loads(was.json_type), json.loads(now.json_type))
        if was.nullable and not now.nullable:
            merge.refused.append(FieldChange((was.name,), was.type_text, f"{now.type_text} not null"))
        elif now.nullable and not was.nullable:
            merge.relaxed.append(was.name)
        columns.append(replace(now, name=was.name, json_type=json.dumps(merged, sort_keys=True)))
    for now in query.columns:
        if table.find(now.name) is None:
            merge.added.append(FieldChange((now.name,), "", now.type_text))
            if not now.nullable:
                merge.refused.append(FieldChange((now.name,), "", f"{now.type_text} not null"))
            columns.append(now)
    return SchemaChange(
        Schema(tuple(columns)), tuple(merge.added), tuple(merge.widened), tuple(merge.relaxed), tuple(merge.refused)
    )


def widens(before: str, after: str) -> bool:
    """True if Delta can widen a column from the first type to the second and keep its rows.

    Both are atomic types as Spark's JSON names them. Source: ``TypeWidening.isTypeChangeSupported`` of Delta 4.
    """
    if before == after:
        return False
    if before in _INTEGERS and after in _INTEGERS:
        return _INTEGERS.index(before) < _INTEGERS.index(after)
    wider = _DECIMAL.fullmatch(after)
    if wider is not None:
        smallest = "decimal(20,0)" if before == "long" else "decimal(10,0)"
        least = _DECIMAL.fullmatch(smallest if before in _INTEGERS else before)
        return least is not None and _holds(wider, least)
    return (before, after) in {("float", "double"), ("date", "timestamp_ntz")} or (
        after == "double" and before in _INTEGERS[:3]
    )


def _holds(wider: re.Match[str], narrower: re.Match[str]) -> bool:
    precision, scale = int(wider[1]), int(wider[2])
    return scale >= int(narrower[2]) and precision - scale >= int(narrower[1]) - int(narrower[2])


class _TypeMerge:
    """Merges two types, and collects their differences."""

    def __init__(self) -> None:
        self.added: list[FieldChange] = []
        self.widened: list[FieldChange] = []
        self.relaxed: list[str] = []
        self.refused: list[FieldChange] = []

    def merged(self, path: tuple[str, ...], was: Any, now: Any) -> Any:
        """The common type of both; without one, the query's type, recorded as refused."""
        if now in (was, "void"):
            return was
        if isinstance(was, str) and isinstance(now, str):
            if widens(now, was):
                return was
            found = self.widened if widens(was, now) else self.refused
            found.append(FieldChange(path, type_text(was), type_text(now)))
            return now
        kind = was["type"] if isinstance(was, dict) and isinstance(now, dict) and was["type"] == now["type"] else None
        if kind == "struct":
            return {**was, "fields": self._fields(path, was["fields"], now["fields"])}
        if kind == "array":
            return {**was, "elementType": self.merged((*path, "element"), was["elementType"], now["elementType"])}
        if kind == "map":
            key = self._key((*path, "key"), was["keyType"], now["keyType"])
            value = self.merged((*path, "value"), was["valueType"], now["valueType"])
            return {**was, "keyType": key, "valueType": value}
        self.refused.append(FieldChange(path, type_text(was), type_text(now)))
        return now

    def _fields(self, path: tuple[str, ...], was: Sequence[Any], now: Sequence[Any]) -> list[Any]:
        given = {field["name"].casefold(): field for field in now}
        fields = []
        for field in was:
            match = given.pop(field["name"].casefold(), None)
            inner = (*path, field["name"])
            fields.append(
                field if match is None else {**field, "type": self.merged(inner, field["type"], match["type"])}
            )
        for field in given.values():
            self.added.append(FieldChange((*path, field["name"]), "", type_text(field["type"])))
            fields.append(field)
        return fields

    def _key(self, path: tuple[str, ...], was: Any, now: Any) -> Any:
        """Map keys cannot get another field, because existing keys would become different keys."""
        inner = _TypeMerge()
        merged = inner.merged(path, was, now)
        self.widened += inner.widened
        self.refused += [*inner.refused, *inner.added]
        return merged
