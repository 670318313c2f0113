"""Positions of streaming flows, read from Structured Streaming's checkpoint files.

Layout after Spark's ``OffsetSeqLog``, ``CommitLog`` and ``FileStreamSourceLog``: a line ``v1``, then JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.model.local_path import local_path


@dataclass(frozen=True)
class Progress:
    """The newest planned batch of a checkpoint: its sources' positions, and whether it was completed.

    ``watermark_moved`` is True when the batch has moved the watermark on, so that Spark plans one more batch, without
    data, for the results that this has closed.
    """

    batch_id: int
    completed: bool
    offsets: tuple[Any, ...]
    watermark_moved: bool = False


def read_progress(checkpoint: Path) -> Progress | None:
    """The newest batch of a checkpoint, or None when none was planned; one that cannot be read is not completed."""
    newest = max(_numbers(checkpoint / "offsets"), default=None)
    if newest is None:
        return None
    try:
        planned, *positions = _json_lines(checkpoint / "offsets" / str(newest))
        if newest not in _numbers(checkpoint / "commits"):
            return Progress(newest, completed=False, offsets=tuple(positions))
        (committed,) = _json_lines(checkpoint / "commits" / str(newest))
    except ValueError:
        # A crash, or a full disk, may leave an empty file.
        return Progress(newest, completed=False, offsets=())
    moved = committed.get("nextBatchWatermarkMs", 0) > planned.get("batchWatermarkMs", 0)
    return Progress(newest, completed=True, offsets=tuple(positions), watermark_moved=moved)


def newest_batches(checkpoint: Path) -> tuple[int | None, int | None]:
    """The numbers of the newest batch that was planned, and of the newest one that is done; None for none."""
    planned, done = (max(_numbers(checkpoint / folder), default=None) for folder in ("offsets", "commits"))
    return planned, done


def newest_epoch_begun(folder: Path, seeded: Callable[[Path], int]) -> int:
    """The newest epoch of a flow in which a batch was planned; -1 for none.

    Args:
        folder: of the flow, with a checkpoint for each epoch.
        seeded: the newest batch of a checkpoint that was written by hand, which is none that a flow has planned.
    """
    begun = []
    for epoch in _numbers(folder):
        planned, _ = newest_batches(folder / str(epoch))
        if planned is not None and planned > seeded(folder / str(epoch)):
            begun.append(epoch)
    return max(begun, default=-1)


def clear_drafts_of_batches(checkpoint: Path) -> None:
    """Take away what a crash has left of files that say what a batch reads, or that it is done.

    Spark passes over them, but begins no stream where it finds one before the first batch.
    """
    for folder in ("offsets", "commits"):
        for draft in (checkpoint / folder).glob(".*.tmp*"):
            draft.unlink(missing_ok=True)
        if not _numbers(checkpoint / folder):
            for sum_of in (checkpoint / folder).glob(".*.crc"):
                sum_of.unlink(missing_ok=True)


def reopen_batch(checkpoint: Path, batch_id: int) -> None:
    """Let the last batch count as not done, so that Spark computes it once more, as after a crash just before that."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def query_id_of(checkpoint: Path) -> str | None:
    """The id that Spark has given to the query of a checkpoint, or None before that."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def first_offsets(checkpoint: Path, batch: int = 0) -> tuple[Any, ...]:
    """The positions at the end of the first batch, or of another one; nothing when Spark has cleaned it up."""
    try:
        return tuple(_json_lines(checkpoint / "offsets" / str(batch))[1:])
    except (FileNotFoundError, ValueError):
        return ()


def positions_digest(checkpoint: Path, batch: int) -> str:
    """A digest of where a batch ends in its sources; empty where the checkpoint does not tell.

    A batch that comes again has the same, as what it ends at is stored before anything is computed.
    """
    try:
        _version, _metadata, *positions = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return ""
    return sha256("\n".join(positions).encode()).hexdigest()


def files_seen(checkpoint: Path, source: int) -> frozenset[str]:
    """Paths that a file source of a checkpoint has listed; a line that cannot be read counts as none."""
    return frozenset(path for path, _ in files_as_seen(checkpoint, source))


def files_as_seen(checkpoint: Path, source: int) -> frozenset[tuple[str, int]]:
    """The same, each with the milliseconds since 1970 at which it had been changed when it was listed."""
    log = checkpoint / "sources" / str(source)
    compacted = max((int(f.stem) for f in log.glob("*.compact") if f.stem.isdigit()), default=None)
    entries = [] if compacted is None else [log / f"{compacted}.compact"]
    entries += [log / str(number) for number in _numbers(log) if compacted is None or number > compacted]
    return frozenset(found for entry in entries for found in _listed_in(entry))


def files_first_seen(checkpoint: Path, source: int) -> frozenset[str]:
    """Paths in a file source's first listing; nothing when Spark has put it together with later ones."""
    first = checkpoint / "sources" / str(source) / "0"
    return frozenset(path for path, _ in _listed_in(first)) if first.is_file() else frozenset()


def newest_listing(checkpoint: Path, source: int) -> int:
    """The number of a file source's newest listing, -1 when it has none; an offset names the one it goes up to.

    A listing is stored before the batch is planned, so one that no offset names was not processed.
    """
    log = checkpoint / "sources" / str(source)
    compacted = {int(file.stem) for file in log.glob("*.compact") if file.stem.isdigit()}
    return max(_numbers(log) | compacted, default=-1)


def _listed_in(listing: Path) -> Iterator[tuple[str, int]]:
    for line in listing.read_text(encoding="utf-8").split("\n")[1:]:
        with suppress(ValueError):
            said = json.loads(line)
            yield local_path(said["path"]), int(said["timestamp"])


def _json_lines(file: Path) -> list[Any]:
    """What follows the line with the version."""
    lines = file.read_text(encoding="utf-8").split("\n")
    return [None if line == "-" else json.loads(line) for line in lines[1:] if line]


def _numbers(folder: Path) -> set[int]:
    try:
        return {int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
