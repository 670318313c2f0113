"""The columns of a dataset, without Spark: converts from and to Spark's JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column; ``json_type`` is Spark's JSON of its type as canonical text, so that equal types are equal texts.

    Nested fields are always nullable, because Delta does not enforce anything else for streams into a table.
    """

    name: str
    json_type: str
    nullable: bool = True
    comment: str | None = field(default=None, compare=False)

    @property
    def type_text(self) -> str:
        """The type in SQL form, such as ``struct<a:int,b:array<string>>``."""
        return type_text(json.loads(self.json_type))

    def __str__(self) -> str:
        return f"{self.name} {self.type_text}"


@dataclass(frozen=True)
class Schema:
    """Columns in order."""

    columns: tuple[Column, ...] = ()

    @staticmethod
    def from_json(text: str) -> Schema:
        """The schema from the text of ``StructType.json()``."""
        return Schema(
            tuple(
                Column(
                    name=entry["name"],
                    json_type=json.dumps(_nullable(entry["type"]), sort_keys=True),
                    nullable=bool(entry["nullable"]),
                    comment=entry.get("metadata", {}).get("comment"),
                )
                for entry in json.loads(text)["fields"]
            )
        )

    def to_json(self) -> str:
        """JSON for ``StructType.fromJson``; of the column metadata it contains only the comment."""
        fields = [
            {
                "name": column.name,
                "type": json.loads(column.json_type),
                "nullable": column.nullable,
                "metadata": {} if column.comment is None else {"comment": column.comment},
            }
            for column in self.columns
        ]
        return json.dumps({"type": "struct", "fields": fields})

    @property
    def nullable(self) -> Schema:
        """The same columns, all nullable."""
        return Schema(tuple(replace(column, nullable=True) for column in self.columns))

    def commented(self, comments: Mapping[str, str]) -> Schema:
        """The same columns with these comments, by column name."""
        by_name = {name.casefold(): comment for name, comment in comments.items()}
        return Schema(tuple(replace(c, comment=by_name.get(c.name.casefold(), c.comment)) for c in self.columns))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of that name in any case, or None."""
        return next((column for column in self.columns if column.name.casefold() == name.casefold()), None)

    def merged(self, other: Schema) -> Schema:
        """Own columns, then those that only *other* has; a column is nullable if it is in either schema.

        Raises:
            SchemaConflict: a column has different types.
        """
        columns = []
        for column in self.columns:
            match = other.find(column.name)
            if match is None:
                columns.append(Column(column.name, column.json_type, nullable=True))
            elif match.json_type != column.json_type:
                raise SchemaConflict(column, match)
            else:
                columns.append(Column(column.name, column.json_type, column.nullable or match.nullable))
        columns += [Column(c.name, c.json_type) for c in other.columns if self.find(c.name) is None]
        return Schema(tuple(columns))

    def __str__(self) -> str:
        return ", ".join(map(str, self.columns))


class SchemaConflict(ValueError):
    """Two schemas give one column different types."""

    def __init__(self, left: Column, right: Column) -> None:
        super().__init__(f'column "{left.name}" is {left.type_text} in one and {right.type_text} in the other')


def _nullable(json_type: Any) -> Any:
    """A type with all nested fields, elements and values nullable."""
    if isinstance(json_type, dict):
        known = {"nullable": True, "containsNull": True, "valueContainsNull": True}
        return {key: known.get(key, _nullable(value)) for key, value in json_type.items() if key != "metadata"} | (
            {"metadata": {}} if "metadata" in json_type else {}
        )
    return [_nullable(entry) for entry in json_type] if isinstance(json_type, list) else json_type


def type_text(json_type: Any) -> str:
    """A type in SQL form, from Spark's JSON of it."""
    if isinstance(json_type, str):
        return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(json_type, json_type)
    kind = json_type["type"]
    if kind == "struct":
        inner = ",".join(f"{field['name']}:{type_text(field['type'])}" for field in json_type["fields"])
        return f"struct<{inner}>"
    if kind == "array":
        return f"array<{type_text(json_type['elementType'])}>"
    if kind == "map":
        return f"map<{type_text(json_type['keyType'])},{type_text(json_type['valueType'])}>"
    return str(kind)
