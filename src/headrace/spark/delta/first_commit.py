"""Writes the first commit of a plain table without Spark, which would take about a third of a second per table.

A plain table uses only what every Delta reader and writer supports since the first protocol versions (PROTOCOL.md,
"Change Metadata", "Protocol Evolution", "Version Checksum File"): nullable columns of plain types, a comment, and
properties that Delta ignores; it may be partitioned or clustered ("Clustered Table"). Delta itself creates all other
tables, and checks them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.atomic_write import create_file
from headrace.delta_log.plain_columns import is_plain_column
from headrace.delta_log.tables import commit_file
from headrace.graph.new_tables import SPECIAL_CHARACTERS
from headrace.graph.resolved import ResolvedDataset
from headrace.spark.delta.tables import clear_drafts
from headrace.stores.paths import StoragePath, storage_path

# Of columns by which Delta partitions and clusters.
_LAYOUT_TYPES = frozenset(("byte", "short", "integer", "long", "string", "date", "timestamp"))
_INDEXED_COLUMNS, _MAX_CLUSTERING_COLUMNS = 32, 4
_CLUSTERING = "delta.clustering"
_CLUSTERING_FEATURES = ["domainMetadata", "clustering", "invariants", "appendOnly"]
# Properties that our own sessions give to every table.
_KNOWN_DEFAULTS = frozenset({"delta.checkpointInterval"})


@dataclass(frozen=True)
class NewTable:
    """A plain table to create.

    Attributes:
        schema: its columns, in Spark's JSON.
        partition_by: its partition columns.
        cluster_by: its clustering columns.
        properties: its properties.
        comment: its comment.
        transaction: application and version that its first commit carries, as Delta's options have them.
    """

    schema: str
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    transaction: tuple[str, int] | None = None

    @classmethod
    def of(cls, dataset: ResolvedDataset, defaults: Mapping[str, str]) -> NewTable:
        """The table of a dataset; *defaults* are properties that the session gives to every new table."""
        declared = dataset.dataset
        properties = {**defaults, **declared.properties}
        return cls(dataset.schema.to_json(), declared.partition_by, declared.cluster_by, properties, declared.comment)

    @property
    def is_plain(self) -> bool:
        """True when it uses nothing that only Delta itself can set up."""
        # Delta checks the values of its own properties, and some need a newer protocol.
        own = {key for key in self.properties if key.casefold().startswith("delta.")}
        fields = json.loads(self.schema)["fields"]
        types = {one["name"]: one["type"] for one in fields}
        # Delta has statistics of the first columns alone, and needs those of clustering columns.
        indexed = {name: types[name] for name in list(types)[:_INDEXED_COLUMNS]}
        return (
            own <= _KNOWN_DEFAULTS
            and all(is_plain_column(one, special=SPECIAL_CHARACTERS) for one in fields)
            and all(str(types.get(name)) in _LAYOUT_TYPES for name in self.partition_by)
            and len(self.partition_by) < len(types)
            and all(str(indexed.get(name)) in _LAYOUT_TYPES for name in self.cluster_by)
            and len(self.cluster_by) <= _MAX_CLUSTERING_COLUMNS
            and not (self.partition_by and self.cluster_by)
        )


def make_plain_table(path: str, table: NewTable, at_ms: int, table_id: str) -> bool:
    """Commit version 0 of a plain table.

    False if it exists, is not plain, has files in its way, or if the file system has no hard links: Delta then creates
    the table, or says what is wrong.

    Args:
        path: the path of the table.
        table: what to create.
        at_ms: the time, in milliseconds since 1970.
        table_id: a unique UUID.
    """
    clear_drafts(path)
    folder = storage_path(path)
    if not table.is_plain or (folder.is_dir() and any(folder.iterdir())):
        return False
    parameters = {
        "partitionBy": json.dumps(table.partition_by),
        "clusterBy": json.dumps(table.cluster_by),
        "isManaged": "false",
        "properties": json.dumps(dict(table.properties)),
    }
    info = {
        "timestamp": at_ms,
        "operation": "CREATE TABLE",
        "operationParameters": parameters,
        "isBlindAppend": True,
        "engineInfo": "headrace",
    }
    metadata = {
        "id": table_id,
        **({"description": table.comment} if table.comment else {}),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema,
        "partitionColumns": list(table.partition_by),
        "configuration": dict(table.properties),
        "createdTime": at_ms,
    }
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    domains, transactions = [], []
    if table.cluster_by:
        protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": _CLUSTERING_FEATURES}
        layout = {"clusteringColumns": [[name] for name in table.cluster_by], "domainName": _CLUSTERING}
        domains = [{"domain": _CLUSTERING, "configuration": json.dumps(layout), "removed": False}]
    if table.transaction is not None:
        app_id, version = table.transaction
        transactions = [{"appId": app_id, "version": version, "lastUpdated": at_ms}]
    actions = [
        *({"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}),
        *({"domainMetadata": domain} for domain in domains),
        *({"txn": transaction} for transaction in transactions),
    ]
    file = commit_file(folder, 0)
    if not _link_new_file(file, "".join(f"{json.dumps(action)}\n" for action in actions)):
        return False
    # Delta writes this checksum file after its own commits; without it, each table costs three small Spark jobs later.
    checksum = {
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": transactions,
        "domainMetadata": domains,
        "metadata": metadata,
        "protocol": protocol,
        "allFiles": [],
    }
    _link_new_file(file.with_suffix(".crc"), json.dumps(checksum))
    return True


def _link_new_file(file: StoragePath, text: str) -> bool:
    """Write a file unless it exists; False too where the file system has no hard links."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        return create_file(file, text)
    return False
