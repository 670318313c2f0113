"""Checkpoints made by hand, from which Spark starts at exactly the positions that they hold.

A query that is started on such a checkpoint goes on as after its last batch, however it reads: the positions are not
options of its query. Two batches are written, both done and both ending at the same positions. Spark asks each source
for the last batch once more when it goes on (``MicroBatchExecution.populateStartOffsets``), and a batch that ends where
it began is empty for every source; the first batch of a checkpoint begins nowhere, and would be read.

A query with state cannot go on from there, because there is no state of the batches that were never run.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EEXIST
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from headrace.autoloader.stores.store import FoundFile

# What Java's URI leaves in a path as it is, beside letters and digits.
_PLAIN = "/;:@&=+$,-_.!~*'()"
# Batches that a seeded checkpoint counts as done.
SEEDED_BATCHES = 2
# Spark writes no space.
_SEEDED = ("v1", '{"nextBatchWatermarkMs": 0}')


@dataclass(frozen=True)
class DeltaPosition:
    """Before the first row of a version of a table, which may be the one to come.

    Source: ``DeltaSourceOffset``; the index -1 stands before everything in a version.
    """

    table_id: str
    version: int

    def offset(self) -> dict[str, Any]:
        """As Spark stores it."""
        return {
            "sourceVersion": 1,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": -1,
            "isStartingVersion": False,
        }


@dataclass(frozen=True)
class FilesPosition:
    """After these files: paths, and when each was last changed, in milliseconds since 1970.

    Source: ``FileStreamSourceOffset``, and ``FileStreamSourceLog`` for the files.
    """

    seen: tuple[tuple[str, int], ...] = ()

    def offset(self) -> dict[str, Any] | None:
        """As Spark stores it; None, which is no position, where no file was seen."""
        return {"logOffset": 0} if self.seen else None


@dataclass(frozen=True)
class LedgerPosition:
    """After the files of a ledger of Auto Loader, which is there already, up to a number."""

    ledger: str
    number: int

    def offset(self) -> dict[str, Any]:
        """As Auto Loader gives it to Spark."""
        return {"ledger": self.ledger, "number": self.number}


@dataclass(frozen=True)
class UnreadFiles:
    """After these files, for which a ledger is made when the checkpoint is; *source* is Auto Loader's, as JSON.

    Files stand with their folders. It is no position that Spark could store.
    """

    source: str
    files: tuple[tuple[str, FoundFile], ...]


Position: TypeAlias = "DeltaPosition | FilesPosition | LedgerPosition"


def seed_checkpoint(
    checkpoint: Path, query_id: str, positions: Sequence[Position], *, metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a checkpoint that goes on after *positions*; it is there whole, or not at all.

    Args:
        checkpoint: where.
        query_id: the id of the query, a UUID that no other query has; Delta's sink commits under it.
        positions: of each source, in the order in which Spark writes their offsets.
        metadata: what Spark stores beside the offsets: watermark, time and confs (default: none of them).

    Raises:
        FileExistsError: something is there already.

    Source: ``OffsetSeqLog``, ``CommitLog`` and ``StreamMetadata`` of Spark 4.2: a line with the format's version, then
    one JSON value a line.
    """
    if checkpoint.exists():
        raise FileExistsError(EEXIST, "a checkpoint is there already", str(checkpoint))
    draft = checkpoint.with_name(f".{checkpoint.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    _write(draft / "metadata", [json.dumps({"id": query_id})])
    said = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}, **(metadata or {})}
    offsets = ["-" if (offset := position.offset()) is None else json.dumps(offset) for position in positions]
    for batch in range(SEEDED_BATCHES):
        _write(draft / "offsets" / str(batch), ["v1", json.dumps(said), *offsets])
        _write(draft / "commits" / str(batch), _SEEDED)
    for number, position in enumerate(positions):
        if isinstance(position, FilesPosition) and position.seen:
            _write(draft / "sources" / str(number) / "0", ["v1", *_entries(position.seen)])
    draft.rename(checkpoint)


def newest_seeded(checkpoint: Path) -> int:
    """The newest batch of a checkpoint that was written by hand and that no table knows of; -1 for none."""
    for batch in reversed(range(SEEDED_BATCHES)):
        with suppress(OSError, UnicodeDecodeError):
            if (checkpoint / "commits" / str(batch)).read_text(encoding="utf-8") == "\n".join(_SEEDED):
                return batch
    return -1


def file_url(path: str) -> str:
    """A local path as Spark's file source writes it into its log; it compares these texts."""
    return "file://" + "".join(c if ord(c) > 127 and not c.isspace() else quote(c, safe=_PLAIN) for c in path)


def _entries(seen: Iterable[tuple[str, int]]) -> list[str]:
    return [json.dumps({"path": file_url(path), "timestamp": at, "batchId": 0}) for path, at in seen]


def _write(file: Path, lines: Iterable[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8") as stream:
        stream.write("\n".join(lines))
        stream.flush()
        os.fsync(stream.fileno())
