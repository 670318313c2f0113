"""The first commit of a plain table, written without Spark, whose own way takes about a third of a second a table.

Plain is what every Delta reader and writer knows since the protocol's first versions (PROTOCOL.md, "Change Metadata",
"Protocol Evolution", "Version Checksum File"): columns of the types below that may be NULL, a comment, properties
without meaning to Delta. Tables with more to them are made by Delta itself, which checks it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.delta_log.tables import commit_file
from headrace.graph.new_tables import SPECIAL
from headrace.graph.resolved import ResolvedDataset

_TYPES = frozenset(
    ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp")
)
# What our own sessions give to every table.
_KNOWN_DEFAULTS = frozenset({"delta.checkpointInterval"})


def plain(dataset: ResolvedDataset, defaults: Mapping[str, str]) -> bool:
    """True when a table needs nothing that only Delta itself can set up.

    Args:
        dataset: its columns, properties and layout.
        defaults: properties that the session gives to every new table.
    """
    declared = dataset.dataset
    # Delta checks the values of its own properties, and some need a newer protocol.
    special = any(key.casefold().startswith("delta.") for key in declared.properties)
    fields = json.loads(dataset.schema.to_json())["fields"]
    flat = not declared.cluster_by and not declared.partition_by
    return flat and not special and set(defaults) <= _KNOWN_DEFAULTS and all(_plain_field(field) for field in fields)


def make_plain_table(
    path: str, dataset: ResolvedDataset, defaults: Mapping[str, str], at_ms: int, table_id: str
) -> bool:
    """Commit version 0 of a plain table; False when there is one, or the storage has no links to make it with.

    Args:
        path: where the table lies.
        dataset: its columns, properties and layout.
        defaults: properties that the session gives to every new table.
        at_ms: the time, in milliseconds since 1970.
        table_id: a UUID that no other table has.
    """
    declared = dataset.dataset
    properties = {**defaults, **declared.properties}
    said = {"partitionBy": "[]", "isManaged": "false", "properties": json.dumps(properties)}
    info = {
        "timestamp": at_ms,
        "operation": "CREATE TABLE",
        "operationParameters": said,
        "isBlindAppend": True,
        "engineInfo": "headrace",
    }
    metadata = {
        "id": table_id,
        **({"description": declared.comment} if declared.comment else {}),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": dataset.schema.to_json(),
        "partitionColumns": [],
        "configuration": properties,
        "createdTime": at_ms,
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    actions = ({"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata})
    file = commit_file(Path(path), 0)
    if not _stored(file, "".join(f"{json.dumps(action)}\n" for action in actions)):
        return False
    # What Delta writes behind its own commits, so that nobody has to compute it: three small works of Spark a table.
    checksum = {
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": metadata,
        "protocol": protocol,
        "allFiles": [],
    }
    _stored(file.with_suffix(".crc"), json.dumps(checksum))
    return True


def _plain_field(field: Mapping[str, Any]) -> bool:
    known = field["nullable"] and not SPECIAL & set(field["name"]) and set(field["metadata"]) <= {"comment"}
    return bool(known) and _plain_type(field["type"])


def _plain_type(found: Any) -> bool:
    if isinstance(found, str):
        return found in _TYPES or found.startswith("decimal(")
    kind = found["type"]
    if kind == "struct":
        return all(_plain_field(field) for field in found["fields"])
    if kind == "array":
        return _plain_type(found["elementType"])
    return kind == "map" and _plain_type(found["keyType"]) and _plain_type(found["valueType"])


def _stored(file: Path, text: str) -> bool:
    """Store a file whole, unless there is one: a link is made only where nothing is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(draft, file)
    except OSError:
        return False
    finally:
        draft.unlink()
    return True
