"""Writes initial checkpoints, from which a query starts at exactly the given offsets.

A query on such a checkpoint continues as after its last batch, whatever its source options: the offsets are not part of
the query. The checkpoint has two completed batches that end at the same offsets. When a query continues, Spark asks
each source for the last batch again (``MicroBatchExecution.populateStartOffsets``). A batch that ends where it started
is empty for every source; the first batch of a checkpoint has no start, and would be read.

A query with state cannot start this way, because the batches that never ran left no state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EEXIST
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from headrace.autoloader.stores.store import FoundFile
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath, remove_tree

# Characters besides letters and digits that Java's URI does not escape in a path.
_PLAIN = "/;:@&=+$,-_.!~*'()"
# The completed batches of an initial checkpoint.
INITIAL_BATCHES = 2
# Spark writes this line without a space, so that the space marks our own.
_INITIAL_COMMIT = ("v1", '{"nextBatchWatermarkMs": 0}')


@dataclass(frozen=True)
class DeltaPosition:
    """The position before the first row of a table version, which may be the next one.

    Source: ``DeltaSourceOffset``; index -1 is before everything in a version.
    """

    table_id: str
    version: int

    def offset(self) -> dict[str, Any]:
        """The offset as Spark stores it."""
        return {
            "sourceVersion": 1,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": -1,
            "isStartingVersion": False,
        }


@dataclass(frozen=True)
class FilesPosition:
    """The position after these files: paths and modification times in milliseconds since 1970.

    Source: ``FileStreamSourceOffset``, and ``FileStreamSourceLog`` for the files.
    """

    seen: tuple[tuple[str, int], ...] = ()

    def offset(self) -> dict[str, Any] | None:
        """The offset as Spark stores it; None if no file was seen."""
        return {"logOffset": 0} if self.seen else None


@dataclass(frozen=True)
class LedgerPosition:
    """The position after the files of an existing Auto Loader ledger, up to a number."""

    ledger: str
    number: int

    def offset(self) -> dict[str, Any]:
        """The offset as Auto Loader gives it to Spark."""
        return {"ledger": self.ledger, "number": self.number}


@dataclass(frozen=True)
class UnreadFiles:
    """The position after these files, whose ledger is written with the checkpoint; *source* is Auto Loader's JSON.

    Files are paired with their folders. Spark cannot store this position.
    """

    source: str
    files: tuple[tuple[str, FoundFile], ...]


Position: TypeAlias = "DeltaPosition | FilesPosition | LedgerPosition"


def create_initial_checkpoint(
    checkpoint: StoragePath, query_id: str, positions: Sequence[Position], *, metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a checkpoint that continues after *positions*; the write is atomic.

    Args:
        checkpoint: its path.
        query_id: the id of the query, a unique UUID; Delta's sink commits under it.
        positions: the position of each source, in the order in which Spark writes their offsets.
        metadata: what Spark stores with the offsets: watermark, time and confs (default: none of them).

    Raises:
        FileExistsError: the path exists.

    Source: ``OffsetSeqLog``, ``CommitLog`` and ``StreamMetadata`` of Spark 4.2: a line with the format's version, then
    one JSON value a line.
    """
    # In an object store, the file of metadata is written last: without it, a crash has left the rest.
    in_store = isinstance(checkpoint, ObjectPath)
    if (checkpoint / "metadata" if in_store else checkpoint).exists():
        raise FileExistsError(EEXIST, "a checkpoint is there already", str(checkpoint))
    draft = checkpoint if in_store else checkpoint.with_name(f".{checkpoint.name}.{os.getpid()}")
    remove_tree(draft)
    header = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}, **(metadata or {})}
    offsets = ["-" if (offset := position.offset()) is None else json.dumps(offset) for position in positions]
    for batch in range(INITIAL_BATCHES):
        _write(draft / "offsets" / str(batch), ["v1", json.dumps(header), *offsets])
        _write(draft / "commits" / str(batch), _INITIAL_COMMIT)
    for number, position in enumerate(positions):
        if isinstance(position, FilesPosition) and position.seen:
            _write(draft / "sources" / str(number) / "0", ["v1", *_entries(position.seen)])
    _write(draft / "metadata", [json.dumps({"id": query_id})])
    if isinstance(draft, Path) and isinstance(checkpoint, Path):
        draft.rename(checkpoint)


def newest_initial_batch(checkpoint: StoragePath) -> int:
    """The newest batch of a checkpoint that :func:`create_initial_checkpoint` wrote; -1 for none."""
    for batch in reversed(range(INITIAL_BATCHES)):
        with suppress(OSError, UnicodeDecodeError):
            if (checkpoint / "commits" / str(batch)).read_text(encoding="utf-8") == "\n".join(_INITIAL_COMMIT):
                return batch
    return -1


def file_url(path: str) -> str:
    """A local path as Spark's file source writes it into its log, where it compares paths as text."""
    return "file://" + "".join(c if ord(c) > 127 and not c.isspace() else quote(c, safe=_PLAIN) for c in path)


def _entries(seen: Iterable[tuple[str, int]]) -> list[str]:
    return [json.dumps({"path": file_url(path), "timestamp": at, "batchId": 0}) for path, at in seen]


def _write(file: StoragePath, lines: Iterable[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(file, ObjectPath):
        file.write_bytes("\n".join(lines).encode())
        return
    with file.open("w", encoding="utf-8") as stream:
        stream.write("\n".join(lines))
        stream.flush()
        os.fsync(stream.fileno())
