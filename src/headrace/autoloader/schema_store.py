"""``<schemaLocation>/_schemas/<n>``: the versions of a source's schema, each a file that is written once.

A file has a line ``v1`` and then the schema as Spark's JSON of a struct, as Structured Streaming's metadata logs are
laid out. What the vendor writes there, an object with ``dataSchemaJson`` and ``partitionSchemaJson``, is read too.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from headrace.autoloader.ddl import JsonType
from headrace.errors import PipelineError

FOLDER = "_schemas"
# Beside that folder while the versions in it are of rows that were cleared.
_OUTDATED = "schemas_are_outdated"
_HEADER = "v1"


@dataclass(frozen=True)
class SchemaVersion:
    """A schema and the number that it is stored under, from 0."""

    number: int
    schema: JsonType


class SchemaStore:
    """The versions below one ``schemaLocation``; what writes there is any worker, at any time."""

    def __init__(self, location: Path) -> None:
        self._folder = location / FOLDER

    def latest(self) -> SchemaVersion | None:
        """The newest version, or None before the first.

        Raises:
            PipelineError: ``AUTO_LOADER.SCHEMA_UNREADABLE`` for a file that holds no schema.
        """
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def numbers(self) -> list[int]:
        """The numbers that are taken, ascending."""
        try:
            return sorted(int(file.name) for file in self._folder.iterdir() if file.name.isdecimal())
        except FileNotFoundError:
            return []

    def read(self, number: int) -> SchemaVersion:
        """One version.

        Raises:
            PipelineError: ``AUTO_LOADER.SCHEMA_UNREADABLE`` for a file that holds no schema.
        """
        file = self._folder / str(number)
        try:
            return SchemaVersion(number, _schema_of(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PipelineError("AUTO_LOADER.SCHEMA_UNREADABLE", file=str(file), reason=str(error)) from error

    @property
    def outdated(self) -> bool:
        """Whether the rows that were read with the newest version were cleared, and none was inferred since."""
        return (self._folder.parent / _OUTDATED).exists()

    def settle(self) -> None:
        """Let the newest version count again: it is the one to read with."""
        (self._folder.parent / _OUTDATED).unlink(missing_ok=True)

    def add(self, schema: JsonType, number: int) -> bool:
        """Write a version under a number that is free, whole or not at all; False when another was first.

        Law: of all that add under one number, one gets True, and what is read there is what it gave.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        whole = self._folder / f".{number}.{uuid4().hex}"
        try:
            with whole.open("w", encoding="utf-8") as file:
                file.write(f"{_HEADER}\n{json.dumps(schema, separators=(',', ':'), ensure_ascii=False)}")
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, refuses a name that exists.
            os.link(whole, self._folder / str(number))
        except FileExistsError:
            return False
        finally:
            whole.unlink(missing_ok=True)
        return True


def outdate_schemas(folder: Path) -> None:
    """Let each reader whose location lies in *folder* infer its schema anew, now or in another process."""
    for schemas in folder.glob(f"*/{FOLDER}"):
        (schemas.parent / _OUTDATED).touch()


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
