"""Splits: files, and parts of files, as units of work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

# Formats whose files can be split.
DIVISIBLE = frozenset({"avro", "csv", "json", "parquet", "text"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz")


@dataclass(frozen=True)
class Split:
    """A part of a file: the records that begin at or after ``start`` and before ``end``.

    ``size`` and ``mtime_ns`` are those of the whole file when it was found.
    """

    path: str
    size: int
    mtime_ns: int
    start: int
    end: int


def modified_at(split: Split) -> datetime:
    """The file's modification time, in milliseconds as in Spark."""
    return _EPOCH + timedelta(milliseconds=split.mtime_ns // 1_000_000)


def split_files(files: Iterable[tuple[str, int, int]], *, divisible: bool, max_bytes: int) -> Iterator[Split]:
    """Divide files (path, size, time) into splits of at most *max_bytes*, if the format is *divisible*."""
    for path, size, mtime_ns in files:
        step = max_bytes if divisible and not path.endswith(_COMPRESSED) else max(size, 1)
        for start in range(0, max(size, 1), step):
            yield Split(path, size, mtime_ns, start, min(start + step, size))


def pack(splits: Sequence[Split], tasks: int, opening_bytes: int) -> list[list[Split]]:
    """Group splits, in order, into at most *tasks* groups of similar cost; opening a file costs *opening_bytes*."""
    total = sum(split.end - split.start + opening_bytes for split in splits)
    share = max(total / max(tasks, 1), 1)
    groups: list[list[Split]] = []
    cost = 0.0
    for split in splits:
        if not groups or (cost >= share and len(groups) < tasks):
            groups.append([])
            cost = 0.0
        groups[-1].append(split)
        cost += split.end - split.start + opening_bytes
    return groups


def is_compressed(path: str) -> bool:
    """Whether the contents are compressed, according to the name."""
    return os.path.basename(path).endswith(_COMPRESSED)  # noqa: PTH119 - a key of a store, too
