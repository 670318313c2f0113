"""Writes the first commit of a plain table without Spark, which would take about a third of a second per table.

A plain table uses only what every Delta reader and writer supports since the first protocol versions (PROTOCOL.md,
"Change Metadata", "Protocol Evolution", "Version Checksum File"): nullable columns of the types below, a comment, and
properties that Delta ignores. Delta itself creates all other tables, and checks them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headrace.atomic_write import create_file
from headrace.delta_log.tables import commit_file
from headrace.graph.new_tables import SPECIAL_CHARACTERS
from headrace.graph.resolved import ResolvedDataset
from headrace.stores.paths import StoragePath, storage_path

_TYPES = frozenset(
    ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp")
)
# Properties that our own sessions give to every table.
_KNOWN_DEFAULTS = frozenset({"delta.checkpointInterval"})


def is_plain_table(dataset: ResolvedDataset, defaults: Mapping[str, str]) -> bool:
    """True when a table uses nothing that only Delta itself can set up.

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
    """Commit version 0 of a plain table; False if it exists, or if the file system has no hard links.

    Args:
        path: the path of the table.
        dataset: its columns, properties and layout.
        defaults: properties that the session gives to every new table.
        at_ms: the time, in milliseconds since 1970.
        table_id: a unique UUID.
    """
    declared = dataset.dataset
    properties = {**defaults, **declared.properties}
    parameters = {"partitionBy": "[]", "isManaged": "false", "properties": json.dumps(properties)}
    info = {
        "timestamp": at_ms,
        "operation": "CREATE TABLE",
        "operationParameters": parameters,
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
    file = commit_file(storage_path(path), 0)
    if not _link_new_file(file, "".join(f"{json.dumps(action)}\n" for action in actions)):
        return False
    # Delta writes this checksum file after its own commits; without it, each table costs three small Spark jobs later.
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
    _link_new_file(file.with_suffix(".crc"), json.dumps(checksum))
    return True


def _plain_field(field: Mapping[str, Any]) -> bool:
    known = field["nullable"] and not SPECIAL_CHARACTERS & set(field["name"]) and set(field["metadata"]) <= {"comment"}
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


def _link_new_file(file: StoragePath, text: str) -> bool:
    """Write a file unless it exists; False too where the file system has no hard links."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        return create_file(file, text)
    return False
