"""Offsets of streaming flows, read from Structured Streaming's checkpoint files.

Layout after Spark's ``OffsetSeqLog``, ``CommitLog`` and ``FileStreamSourceLog``: a line ``v1``, then JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from headrace.model.local_path import local_path
from headrace.stores.paths import StoragePath

# Commits have other versions, whose lines mean the same.
_OFFSETS_VERSION = "v1"


@dataclass(frozen=True)
class Progress:
    """The newest planned batch of a checkpoint: its sources' end offsets, and whether it was completed.

    ``watermark_moved`` is True when the batch advanced the watermark, so that Spark plans one more batch, without data,
    for the results that this closes.
    """

    batch_id: int
    completed: bool
    offsets: tuple[Any, ...]
    watermark_moved: bool = False


def read_progress(checkpoint: StoragePath) -> Progress | None:
    """The newest batch of a checkpoint, or None when none was planned; an unreadable one counts as not completed."""
    newest = max(_numbers(checkpoint / "offsets"), default=None)
    if newest is None:
        return None
    try:
        planned, *positions = _offset_lines(checkpoint, newest)
        if newest not in _numbers(checkpoint / "commits"):
            return Progress(newest, completed=False, offsets=tuple(positions))
        (committed,) = _json_lines(checkpoint / "commits" / str(newest))
    except ValueError:
        # A crash, or a full disk, may leave an empty file.
        return Progress(newest, completed=False, offsets=())
    moved = committed.get("nextBatchWatermarkMs", 0) > planned.get("batchWatermarkMs", 0)
    return Progress(newest, completed=True, offsets=tuple(positions), watermark_moved=moved)


def newest_batches(checkpoint: StoragePath) -> tuple[int | None, int | None]:
    """The numbers of the newest planned batch and of the newest completed one; None for none."""
    planned, done = (max(_numbers(checkpoint / folder), default=None) for folder in ("offsets", "commits"))
    return planned, done


def open_batch_planned_at(checkpoint: StoragePath) -> float | None:
    """When the newest batch was planned, in seconds since 1970; None if it is completed, or none was planned."""
    planned, done = newest_batches(checkpoint)
    if planned is None or planned == done:
        return None
    try:
        return (checkpoint / "offsets" / str(planned)).stat().st_mtime
    except FileNotFoundError:
        # Spark deletes old batches.
        return None


def remove_batch_drafts(checkpoint: StoragePath) -> None:
    """Remove the drafts of offset and commit files that a crash left.

    Spark ignores them, but does not start a stream if it finds one before the first batch.
    """
    for folder in ("offsets", "commits"):
        for draft in (checkpoint / folder).glob(".*.tmp*"):
            draft.unlink(missing_ok=True)
        if not _numbers(checkpoint / folder):
            for sum_of in (checkpoint / folder).glob(".*.crc"):
                sum_of.unlink(missing_ok=True)


def reopen_batch(checkpoint: StoragePath, batch_id: int) -> None:
    """Make Spark compute the last batch again, as after a crash just before its commit."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def query_id_of(checkpoint: StoragePath) -> str | None:
    """The id that Spark gave to the query of a checkpoint; None before its first start."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def first_offsets(checkpoint: StoragePath, batch: int = 0) -> tuple[Any, ...]:
    """The end offsets of the first batch, or of another one; empty once Spark has deleted them."""
    try:
        return tuple(_offset_lines(checkpoint, batch)[1:])
    except (FileNotFoundError, ValueError):
        return ()


def batch_metadata(checkpoint: StoragePath, batch: int) -> dict[str, Any]:
    """What Spark stored with the offsets of a batch: watermark, time and confs; empty if that cannot be read."""
    try:
        found = _offset_lines(checkpoint, batch)[0]
    except (OSError, ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


def positions_digest(checkpoint: StoragePath, batch: int) -> str:
    """A digest of a batch's end offsets; empty if the checkpoint does not have them.

    A repeated batch has the same digest, because its end offsets are stored before it is computed.
    """
    try:
        _version, _metadata, *positions = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return ""
    return sha256("\n".join(positions).encode()).hexdigest()


def files_seen(checkpoint: StoragePath, source: int) -> frozenset[str]:
    """The paths that a file source of a checkpoint has listed; unreadable lines are skipped."""
    return frozenset(path for path, _ in files_seen_with_times(checkpoint, source))


def files_seen_with_times(checkpoint: StoragePath, source: int) -> frozenset[tuple[str, int]]:
    """The same paths, each with its modification time when it was listed, in milliseconds since 1970."""
    log = checkpoint / "sources" / str(source)
    compacted = max((int(f.stem) for f in log.glob("*.compact") if f.stem.isdigit()), default=None)
    entries = [] if compacted is None else [log / f"{compacted}.compact"]
    entries += [log / str(number) for number in _numbers(log) if compacted is None or number > compacted]
    return frozenset(found for entry in entries for found in _listed_in(entry))


def files_first_seen(checkpoint: StoragePath, source: int) -> frozenset[str]:
    """The paths in a file source's first listing; empty once Spark has compacted it with later ones."""
    first = checkpoint / "sources" / str(source) / "0"
    return frozenset(path for path, _ in _listed_in(first)) if first.is_file() else frozenset()


def newest_listing(checkpoint: StoragePath, source: int) -> int:
    """The number of a file source's newest listing, -1 for none; an offset is the number of its last listing.

    A listing is stored before its batch is planned, so a listing after the last offset was not processed.
    """
    log = checkpoint / "sources" / str(source)
    compacted = {int(file.stem) for file in log.glob("*.compact") if file.stem.isdigit()}
    return max(_numbers(log) | compacted, default=-1)


def _listed_in(listing: StoragePath) -> Iterator[tuple[str, int]]:
    for line in listing.read_bytes().decode("utf-8", errors="replace").split("\n")[1:]:
        # Other sources than files keep something else there.
        with suppress(ValueError, LookupError, TypeError):
            entry = json.loads(line)
            yield local_path(entry["path"]), int(entry["timestamp"])


def _offset_lines(checkpoint: StoragePath, batch: int) -> list[Any]:
    """The lines of a batch's offsets: its metadata, then an offset for each source.

    Raises:
        ValueError: they are torn, or in another format, whose lines may mean something else.
    """
    file = checkpoint / "offsets" / str(batch)
    version = file.read_text(encoding="utf-8").split("\n", 1)[0].strip()
    if version != _OFFSETS_VERSION:
        raise ValueError(f"{file} has the version {version[:20]!r}")
    return _json_lines(file)


def _json_lines(file: StoragePath) -> list[Any]:
    """The JSON lines after the version line."""
    lines = file.read_text(encoding="utf-8").split("\n")
    return [None if line == "-" else json.loads(line) for line in lines[1:] if line]


def _numbers(folder: StoragePath) -> set[int]:
    try:
        return {int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
