"""Walks an Avro schema, so that each of its types becomes a type of another system.

The walker knows the parts of Avro that all conversions share: named types and their namespaces, references to types
that are defined earlier, and nesting. It refuses recursive records, and schemas that grow without bounds when their
references are followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
# A schema whose types refer to each other grows when it is expanded.
_MAX_TYPES = 20_000

Type = TypeVar("Type")


class UnsupportedAvroSchema(ValueError):
    """A schema that has no equivalent; the message says why."""


class TypeConversion(Protocol[Type]):
    """Converts the types of a schema; types inside of a type come converted already."""

    def primitive(self, kind: str, schema: Mapping[str, Any]) -> Type:
        """A primitive type, with the attributes of its schema, such as ``logicalType``."""

    def enum(self, schema: Mapping[str, Any]) -> Type:
        """An enum."""

    def fixed(self, schema: Mapping[str, Any]) -> Type:
        """A fixed number of bytes."""

    def array(self, items: Type) -> Type:
        """An array."""

    def map(self, values: Type) -> Type:
        """A map with strings as keys."""

    def record(self, fields: Sequence[tuple[str, Type]]) -> Type:
        """A record, with the names and types of its fields."""

    def union(self, branches: Sequence[tuple[Any, Type]]) -> Type:
        """A union, with the schema and the type of each branch."""


class SchemaWalker(Generic[Type]):
    """Converts one schema, and keeps the types that it defines."""

    def __init__(self, conversion: TypeConversion[Type]) -> None:
        self._conversion = conversion
        self._named: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._types = 0

    def walk(self, schema: Any, namespace: str = "", enclosing: tuple[str, ...] = ()) -> Type:
        """The converted type.

        Args:
            schema: as Avro writes it in JSON, parsed.
            namespace: of names without one.
            enclosing: the names of the enclosing records.

        Raises:
            UnsupportedAvroSchema: a name is not defined, a record contains itself, or there are too many types.
        """
        self._types += 1
        if self._types > _MAX_TYPES:
            raise UnsupportedAvroSchema(f"it has more than {_MAX_TYPES} types")
        if isinstance(schema, list):
            return self._conversion.union([(branch, self.walk(branch, namespace, enclosing)) for branch in schema])
        if isinstance(schema, str):
            return self._reference(schema, {}, namespace, enclosing)
        kind = schema["type"]
        if isinstance(kind, (list, dict)):
            return self.walk(kind, namespace, enclosing)
        if kind in ("record", "error", "enum", "fixed"):
            name = full_name(schema, namespace)
            self._named[name] = (schema, name.rpartition(".")[0])
            return self._definition(name, enclosing)
        if kind == "array":
            return self._conversion.array(self.walk(schema["items"], namespace, enclosing))
        if kind == "map":
            return self._conversion.map(self.walk(schema["values"], namespace, enclosing))
        return self._reference(kind, schema, namespace, enclosing)

    def _reference(self, name: str, schema: Mapping[str, Any], namespace: str, enclosing: tuple[str, ...]) -> Type:
        if name in PRIMITIVES:
            return self._conversion.primitive(name, schema)
        full = next((full for full in possible_names(name, namespace) if full in self._named), None)
        if full is None:
            raise UnsupportedAvroSchema(f'type "{name}" is not defined')
        return self._definition(full, enclosing)

    def _definition(self, name: str, enclosing: tuple[str, ...]) -> Type:
        schema, namespace = self._named[name]
        if schema["type"] == "enum":
            return self._conversion.enum(schema)
        if schema["type"] == "fixed":
            return self._conversion.fixed(schema)
        if name in enclosing:
            raise UnsupportedAvroSchema(f'record "{name}" contains itself')
        inside = (*enclosing, name)
        return self._conversion.record(
            [(field["name"], self.walk(field["type"], namespace, inside)) for field in schema["fields"]]
        )


def full_name(schema: Mapping[str, Any], namespace: str) -> str:
    """The full name of a defined type; *namespace* is that of the enclosing type."""
    name, own = schema["name"], schema.get("namespace", namespace)
    return str(name) if "." in name or not own else f"{own}.{name}"


def possible_names(name: str, namespace: str) -> tuple[str, ...]:
    """The full names that a reference may mean, the nearest namespace first."""
    return (f"{namespace}.{name}", name) if namespace and "." not in name else (name,)
