"""Clustering and protocol of a Delta table, where delta-rs does not expose them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from headrace.delta_log.tables import open_table
from headrace.stores.paths import StoragePath, file_source, sorted_paths, storage_path

_CLUSTERING = "delta.clustering"
_DOMAINS = "domainMetadata"
_FEATURE = "delta.feature."
_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class TableLayout:
    """Clustering and protocol of a table; ``cluster_by`` is None if the log no longer has it."""

    cluster_by: tuple[str, ...] | None = ()
    features: frozenset[str] = frozenset()
    min_reader: int = 1
    min_writer: int = 2

    def satisfies(self, key: str, value: str) -> bool | None:
        """Whether the protocol satisfies a table property that Delta keeps there; None for any other property.

        Source: Delta takes ``delta.feature.*``, ``delta.minReaderVersion`` and ``delta.minWriterVersion`` out of the
        table's configuration when it commits them (PROTOCOL.md, "Table Features").
        """
        wanted = key.casefold()
        if wanted.startswith(_FEATURE):
            return wanted[len(_FEATURE) :] in self.features
        if wanted in ("delta.minreaderversion", "delta.minwriterversion"):
            has = self.min_reader if wanted == "delta.minreaderversion" else self.min_writer
            return not value.strip().isdigit() or int(value) <= has
        return None


def table_layout(path: str) -> TableLayout:
    """The layout of the table at a path; the default layout if there is none."""
    table = open_table(path)
    if table is None:
        return TableLayout()
    protocol = table.protocol()
    features = frozenset(
        name.casefold() for name in (*(protocol.reader_features or ()), *(protocol.writer_features or ()))
    )
    clustered: tuple[str, ...] | None = ()
    if "clustering" in features:
        stored = _cluster_columns(path)
        fields = json.loads(table.schema().to_json())["fields"]
        clustered = None if stored is None else tuple(_logical_name(parts, fields) for parts in stored)
    return TableLayout(clustered, features, protocol.min_reader_version, protocol.min_writer_version)


def _logical_name(parts: tuple[str, ...], fields: list[Any]) -> str:
    """The logical name of a column; with column mapping, the log has physical names."""
    names = []
    for part in parts:
        known = {field.get("metadata", {}).get(_PHYSICAL, field["name"]): field for field in fields}
        field = known.get(part, {"name": part, "type": None})
        names.append(str(field["name"]))
        fields = field["type"].get("fields", []) if isinstance(field["type"], dict) else []
    return ".".join(names)


def _cluster_columns(path: str) -> tuple[tuple[str, ...], ...] | None:
    """The clustering columns in the log: from the newest commit that sets them, or else from the last checkpoint.

    None if unknown.
    """
    log = storage_path(path) / "_delta_log"
    checkpointed, parts = _checkpoint(log)
    for file in reversed(sorted_paths(log.glob("*.json"))):
        if file.stem.isdigit() and int(file.stem) <= checkpointed:
            break
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        if _CLUSTERING not in text:
            continue
        for line in text.split("\n"):
            domain = json.loads(line).get(_DOMAINS, {}) if _CLUSTERING in line else {}
            if domain.get("domain") == _CLUSTERING:
                return _columns(domain)
    kept = [part for part in parts if _DOMAINS in pq.read_schema(file_source(part)).names]
    domains = [
        row
        for part in kept
        for row in pq.read_table(file_source(part), columns=[_DOMAINS])[_DOMAINS].to_pylist()
        if row
    ]
    ours = [domain for domain in domains if domain["domain"] == _CLUSTERING]
    if ours:
        return _columns(ours[0])
    # A checkpoint with domain metadata would have it.
    return () if kept else None


def _columns(domain: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    columns = () if domain.get("removed") else json.loads(domain["configuration"])["clusteringColumns"]
    return tuple(map(tuple, columns))


def _checkpoint(log: StoragePath) -> tuple[int, list[StoragePath]]:
    """The version and the files of the newest checkpoint; -1 and no files if there is none."""
    files = [file for file in log.glob("*.checkpoint*.parquet") if file.name.partition(".")[0].isdigit()]
    newest = max((int(file.name.partition(".")[0]) for file in files), default=-1)
    return newest, [file for file in files if int(file.name.partition(".")[0]) == newest]
