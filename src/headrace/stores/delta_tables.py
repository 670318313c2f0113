"""Delta tables through delta-rs, which gets the connection of the bucket that a table is in."""

from __future__ import annotations

from deltalake import DeltaTable

from headrace.stores.connections import delta_options


def open_delta(path: str, version: int | None = None) -> DeltaTable:
    """The table at a path.

    Raises:
        DeltaError: delta-rs cannot open it.
    """
    return DeltaTable(path, version=version, storage_options=delta_options(path))


def is_delta(path: str) -> bool:
    """Whether a path has a table that delta-rs can open."""
    return bool(DeltaTable.is_deltatable(path, storage_options=delta_options(path)))
