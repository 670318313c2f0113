"""What would have to change in a table so that it can take the rows of a query, down to the fields of structs."""

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
    """A column, or a field of one, as the table has it and as the query gives it.

    ``path`` begins with the column; a field of a struct adds its name, elements of an array ``element``, keys and
    values of a map ``key`` and ``value``, as ``ALTER TABLE`` spells it. ``before`` and ``after`` are types as SQL
    spells them; ``before`` is empty for a field that the table lacks, ``after`` for one that the query lacks.
    """

    path: tuple[str, ...]
    before: str
    after: str

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class SchemaChange:
    """From the schema of a table to one that takes a query's rows too.

    ``result`` has the table's columns in its order, then new ones. ``refused`` are the fields for which there is no
    such type, and the result is of no use when there is one; ``relaxed`` are columns that may be NULL from now on.
    """

    result: Schema
    added: tuple[FieldChange, ...] = ()
    widened: tuple[FieldChange, ...] = ()
    relaxed: tuple[str, ...] = ()
    refused: tuple[FieldChange, ...] = ()

    @property
    def none(self) -> bool:
        """True when the table takes the rows as it is."""
        return not (self.added or self.widened or self.relaxed or self.refused)


def schema_change(table: Schema, query: Schema) -> SchemaChange:
    """What has to change in *table* so that it takes rows of *query* and keeps its own.

    A field that only the table has stays, and is NULL in new rows. A type that is narrower in the query stays as the
    table has it: its values fit.
    """
    walk = _Walk()
    columns = []
    for was in table.columns:
        now = query.find(was.name)
        if now is None:
            columns.append(was)
            if not was.nullable:
                walk.refused.append(FieldChange((was.name,), f"{was.type_text} not null", ""))
            continue
        merged = walk.merged((was.name,), json.loads(was.json_type), json.loads(now.json_type))
        if was.nullable and not now.nullable:
            walk.refused.append(FieldChange((was.name,), was.type_text, f"{now.type_text} not null"))
        elif now.nullable and not was.nullable:
            walk.relaxed.append(was.name)
        columns.append(replace(now, name=was.name, json_type=json.dumps(merged, sort_keys=True)))
    for now in query.columns:
        if table.find(now.name) is None:
            walk.added.append(FieldChange((now.name,), "", now.type_text))
            if not now.nullable:
                walk.refused.append(FieldChange((now.name,), "", f"{now.type_text} not null"))
            columns.append(now)
    return SchemaChange(
        Schema(tuple(columns)), tuple(walk.added), tuple(walk.widened), tuple(walk.relaxed), tuple(walk.refused)
    )


def widens(before: str, after: str) -> bool:
    """True when Delta can change a column of the first type to the second and keep its rows.

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


class _Walk:
    """Collects what differs on the way through two types."""

    def __init__(self) -> None:
        self.added: list[FieldChange] = []
        self.widened: list[FieldChange] = []
        self.relaxed: list[str] = []
        self.refused: list[FieldChange] = []

    def merged(self, path: tuple[str, ...], was: Any, now: Any) -> Any:
        """The type that takes values of both; that of the query where there is none, which is then noted."""
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
        """Keys of a map cannot get another field: those that are there would become other keys."""
        inner = _Walk()
        merged = inner.merged(path, was, now)
        self.widened += inner.widened
        self.refused += [*inner.refused, *inner.added]
        return merged
