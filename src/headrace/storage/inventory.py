"""The tables and flows in the storage, whether or not the code still defines them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.delta_log.tables import has_log, table_exists
from headrace.model.names import QUARANTINE_SUFFIX, InvalidName, Naming, QualifiedName
from headrace.settings.storage import StorageLayout, path_safe
from headrace.storage.adopted_tables import AdoptedTables
from headrace.storage.flow_record import FlowRecord, read_record
from headrace.stores.paths import StoragePath, relative_path, snapshot_of, sorted_paths, storage_path

_ENCODED = re.compile(r"(?:~[0-9a-f]{2})+")


@dataclass(frozen=True)
class StoredFlow:
    """A flow with a record; its names come from the record's path."""

    name: str
    dataset: QualifiedName
    file: StoragePath
    record: FlowRecord

    @property
    def has_run(self) -> bool:
        """True when it may have written rows into its table."""
        return self.record.started_at > 0 or self.record.running


def stored_tables(layout: StorageLayout, naming: Naming) -> Iterator[tuple[QualifiedName, str]]:
    """Every Delta table below the storage's ``tables``: its canonical name and path, sorted by path.

    Omits tables that have left the pipeline, and a log without a commit, which a crash left. In a snapshot of a bucket,
    the folder of a table is not searched for tables of a schema that has its name: it may hold millions of files.
    """
    root = storage_path(layout.root) / "tables"
    released = AdoptedTables(layout).released()
    folders = {folder: has_log(str(folder)) for folder in sorted_paths(root.glob("*/*"))}
    searched = [folder for folder, is_table in folders.items() if not is_table or snapshot_of(root) is None]
    nested = [path for folder in searched for path in sorted_paths(folder.glob("*")) if has_log(str(path))]
    for folder in [*(folder for folder, is_table in folders.items() if is_table), *nested]:
        parts = relative_path(folder, root).parts
        if not table_exists(str(folder)) or (released and os.path.realpath(str(folder)) in released):
            continue
        try:
            yield naming.canonical(".".join(f"`{part}`" for part in parts)), str(folder)
        except InvalidName:
            continue


def foreign_tables(layout: StorageLayout, naming: Naming) -> Iterator[tuple[QualifiedName, str]]:
    """Names and paths of tables in the storage that no flow writes, such as those of scripts."""
    for name, path in stored_tables(layout, naming):
        fed = replace(name, name=name.name.removesuffix(QUARANTINE_SUFFIX))
        if not flows_of(layout, naming, fed):
            yield name, path


def stored_flows(layout: StorageLayout, naming: Naming) -> tuple[StoredFlow, ...]:
    """Every flow with a record, sorted by path."""
    root = storage_path(layout.root) / "checkpoints"
    files = sorted_paths(root.glob("*/*/*/flow.json")) + sorted_paths(root.glob("*/*/*/*/flow.json"))
    return tuple(_read(files, root, naming))


def flows_of(layout: StorageLayout, naming: Naming, dataset: QualifiedName) -> tuple[StoredFlow, ...]:
    """The flows of one dataset that have a record, sorted by path."""
    folder = storage_path(layout.flows(naming, dataset))
    return tuple(
        _read(sorted_paths(folder.glob("*/flow.json")), storage_path(layout.root) / "checkpoints", naming, dataset)
    )


def first_record(flow: str, siblings: Sequence[StoredFlow], known_epoch: int | None) -> tuple[FlowRecord, bool]:
    """A new record for a flow without one, and whether the flow has run.

    Args:
        flow: the flow's name.
        siblings: the flows of its dataset that have a record.
        known_epoch: the newest epoch in which the event log has batches under its name and dataset, or None.

    If a renamed flow had this name before, the new flow gets an identity and epochs of its own.
    """
    identities = {sibling.record.identity for sibling in siblings}
    if not any(flow in sibling.record.former_names for sibling in siblings) and flow not in identities:
        return FlowRecord(epoch=known_epoch or 0, identity=flow), known_epoch is not None
    number = 2
    while f"{flow}~{number}" in identities:
        number += 1
    epoch = 0 if known_epoch is None else known_epoch + 1
    return FlowRecord(epoch=epoch, identity=f"{flow}~{number}", first_epoch=epoch), False


def _read(
    files: Iterable[StoragePath], root: StoragePath, naming: Naming, dataset: QualifiedName | None = None
) -> Iterator[StoredFlow]:
    for file in files:
        *parts, folder = relative_path(file.parent, root).parts
        try:
            name = dataset or naming.canonical(".".join(f"`{part}`" for part in parts))
        except InvalidName:
            continue
        record = read_record(file)
        if record is not None:
            named = record.flow if record.flow and path_safe(record.flow) == folder else _decoded(folder)
            yield StoredFlow(named, name, file, replace(record, identity=record.identity or named))


def _decoded(folder: str) -> str:
    """The inverse of :func:`headrace.settings.storage.path_safe`, unless the folder's name was shortened."""
    return _ENCODED.sub(lambda match: bytes.fromhex(match.group().replace("~", "")).decode(errors="replace"), folder)
