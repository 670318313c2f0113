"""The positions that streams have in tables, from the checkpoints in the storage.

Streams whose checkpoints are elsewhere, as those of other pipelines, are not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.checkpoints.offsets import first_offsets, newest_batches
from headrace.storage.checkpoint_folders import find_checkpoints
from headrace.stores.paths import StoragePath


@dataclass(frozen=True)
class TablePosition:
    """What a stream still needs of a table: the files of *version*, and of all commits from it on.

    ``reader`` is the name of its checkpoint.
    """

    table_id: str
    version: int
    reader: str


@dataclass(frozen=True)
class Positions:
    """All positions in the storage; ``unknown`` has the checkpoints whose positions cannot be read, with the reason."""

    known: tuple[TablePosition, ...] = ()
    unknown: tuple[str, ...] = ()

    def oldest(self, table_id: str) -> TablePosition | None:
        """The position that needs the oldest version of a table; None if no stream reads it."""
        return min((p for p in self.known if p.table_id == table_id), key=lambda p: p.version, default=None)


def read_positions(root: str) -> Positions:
    """The positions of all streams with a checkpoint in a storage.

    Law: a stream that starts again from its checkpoint reads no older version of a table than its position says.

    Args:
        root: the folder of the storage.
    """
    checkpoints = find_checkpoints(root)
    known: list[TablePosition] = []
    unknown = list(checkpoints.unknown)
    for checkpoint in checkpoints.found:
        reader = checkpoint.name
        try:
            known += [TablePosition(table, version, reader) for table, version in _needed(checkpoint.path)]
        except (OSError, ValueError, KeyError, TypeError) as error:
            unknown.append(f"the position of {reader} cannot be read ({type(error).__name__})")
    return Positions(tuple(known), tuple(unknown))


def _needed(checkpoint: StoragePath) -> Iterator[tuple[str, int]]:
    """The ids of the tables that a stream reads, each with the oldest version that it needs."""
    newest, _ = newest_batches(checkpoint)
    if newest is None:
        return
    offsets = _offsets(checkpoint, newest)
    # Spark asks each source for the last batch again, from the end of the one before.
    before = first_offsets(checkpoint, newest - 1) if newest > 0 else ()
    for number, offset in enumerate(offsets):
        if not isinstance(offset, dict) or "reservoirId" not in offset:
            continue
        table, versions = str(offset["reservoirId"]), [int(offset["reservoirVersion"])]
        start = before[number] if number < len(before) else None
        if isinstance(start, dict) and start.get("reservoirId") == table:
            versions.append(int(start["reservoirVersion"]))
        elif not offset.get("isStartingVersion"):
            # The first batch may have started anywhere before.
            versions.append(0)
        yield table, min(versions)


def _offsets(checkpoint: StoragePath, batch: int) -> tuple[Any, ...]:
    found = first_offsets(checkpoint, batch)
    if not found:
        raise ValueError("an unreadable file of offsets")
    return found
