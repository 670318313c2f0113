"""``<schemaLocation>/_schemas/<n>``: the versions of a source's schema, each an immutable file.

A file has a line ``v1`` and then the schema as Spark's JSON of a struct, in the layout of Structured Streaming's
metadata logs. The vendor's layout, an object with ``dataSchemaJson`` and ``partitionSchemaJson``, is read too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.atomic_write import create_file
from headrace.errors import PipelineError
from headrace.model.ddl import JsonType
from headrace.stores.paths import StoragePath

FOLDER = "_schemas"
# Exists next to that folder while its versions belong to rows that were cleared.
_OUTDATED = "schemas_are_outdated"
_HEADER = "v1"


@dataclass(frozen=True)
class SchemaVersion:
    """A schema and its version number, from 0."""

    number: int
    schema: JsonType


class SchemaStore:
    """The schema versions below one ``schemaLocation``; any worker can write there at any time."""

    def __init__(self, location: StoragePath) -> None:
        self._folder = location / FOLDER

    def latest(self) -> SchemaVersion | None:
        """The newest version, or None before the first.

        Raises:
            PipelineError: ``AUTO_LOADER.SCHEMA_UNREADABLE``: the file is not a schema.
        """
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def numbers(self) -> list[int]:
        """The existing version numbers, ascending."""
        try:
            return sorted(int(file.name) for file in self._folder.iterdir() if file.name.isdecimal())
        except FileNotFoundError:
            return []

    def read(self, number: int) -> SchemaVersion:
        """Read one version.

        Raises:
            PipelineError: ``AUTO_LOADER.SCHEMA_UNREADABLE``: the file is not a schema.
        """
        file = self._folder / str(number)
        try:
            return SchemaVersion(number, _schema_of(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PipelineError("AUTO_LOADER.SCHEMA_UNREADABLE", file=str(file), reason=str(error)) from error

    @property
    def is_outdated(self) -> bool:
        """Whether the rows of the newest version were cleared, and no schema was inferred since."""
        return (self._folder.parent / _OUTDATED).exists()

    def mark_current(self) -> None:
        """Mark the newest version as current: it is the one to read with."""
        (self._folder.parent / _OUTDATED).unlink(missing_ok=True)

    def add(self, schema: JsonType, number: int) -> bool:
        """Write a version atomically; return False if the number exists already.

        Law: of all writers of one number, exactly one gets True, and readers see its schema.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
        return create_file(self._folder / str(number), f"{_HEADER}\n{text}")


def adopt_schema(source: StoragePath, target: StoragePath) -> None:
    """Make the newest schema of one location the newest of another one; can be repeated.

    Args:
        source: the location that has the schema; nothing happens if it has none.
        target: the other location, which keeps its older versions.

    Raises:
        PipelineError: ``AUTO_LOADER.SCHEMA_UNREADABLE``: a file is not a schema.
    """
    wanted, store = SchemaStore(source).latest(), SchemaStore(target)
    if wanted is None:
        return
    known = store.latest()
    if known is None or known.schema != wanted.schema:
        store.add(wanted.schema, 0 if known is None else known.number + 1)
    store.mark_current()


def mark_schemas_outdated(folder: StoragePath) -> None:
    """Make each reader with a location in *folder* infer its schema again, in this or another process."""
    for schemas in folder.glob(f"*/{FOLDER}"):
        create_file(schemas.parent / _OUTDATED, "")


def _schema_of(text: str) -> JsonType:
    header, _, body = text.partition("\n")
    if header.strip() != _HEADER:
        raise ValueError(f'its first line is not "{_HEADER}"')
    document = json.loads(body)
    if "dataSchemaJson" in document:
        data, partitions = (json.loads(document.get(key) or '{"fields":[]}') for key in _PARTS)
        return {"type": "struct", "fields": data["fields"] + partitions["fields"]}
    if document["type"] != "struct":
        raise ValueError("its schema is not a struct")
    return document


_PARTS = ("dataSchemaJson", "partitionSchemaJson")
