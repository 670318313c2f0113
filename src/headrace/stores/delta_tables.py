"""Delta tables through delta-rs, which gets the connection of the bucket that a table is in."""

from __future__ import annotations

from deltalake import DeltaTable

from headrace.stores.connections import delta_options
from headrace.stores.paths import snapshot_of, storage_path
from headrace.stores.table_logs import LOG
from headrace.stores.uris import StoreUri


def open_delta(path: str, version: int | None = None) -> DeltaTable:
    """The table at a path.

    Raises:
        DeltaError: delta-rs cannot open it.
    """
    return DeltaTable(path, version=version, storage_options=delta_options(path))


def is_delta(path: str) -> bool:
    """Whether a path has a table that delta-rs can open."""
    return bool(DeltaTable.is_deltatable(path, storage_options=delta_options(path)))


def open_log(path: str) -> DeltaTable:
    """The newest version of the table at a path, for what its log says.

    In a snapshot of a bucket it is opened on a copy of the log, which ends with the snapshot and has no rows.

    Raises:
        DeltaError: delta-rs cannot open it.
    """
    snapshot = snapshot_of(storage_path(path))
    if snapshot is not None:
        table = snapshot.table(StoreUri.parse(f"{path}/{LOG}").key)
        if table is not None:
            return table
    return open_delta(path)
