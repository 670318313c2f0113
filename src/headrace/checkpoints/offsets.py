"""Positions of streaming flows, read from Structured Streaming's checkpoint files.

Layout after Spark's ``OffsetSeqLog``, ``CommitLog`` and ``FileStreamSourceLog``: a line ``v1``, then JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse


@dataclass(frozen=True)
class Progress:
    """The newest planned batch of a checkpoint: its sources' positions, and whether it was completed."""

    batch_id: int
    completed: bool
    offsets: tuple[Any, ...]


def read_progress(checkpoint: Path) -> Progress | None:
    """The newest batch of a checkpoint, or None when none was planned or its file cannot be read."""
    newest = max(_numbers(checkpoint / "offsets"), default=None)
    if newest is None:
        return None
    lines = (checkpoint / "offsets" / str(newest)).read_text(encoding="utf-8").split("\n")
    try:
        offsets = tuple(None if line == "-" else json.loads(line) for line in lines[2:] if line)
    except json.JSONDecodeError:
        return None
    return Progress(newest, newest in _numbers(checkpoint / "commits"), offsets)


def files_seen(checkpoint: Path, source: int) -> frozenset[str]:
    """Paths that a file source of a checkpoint has taken."""
    log = checkpoint / "sources" / str(source)
    compacted = max((int(f.stem) for f in log.glob("*.compact") if f.stem.isdigit()), default=None)
    entries = [] if compacted is None else [log / f"{compacted}.compact"]
    entries += [log / str(number) for number in _numbers(log) if compacted is None or number > compacted]
    seen = set()
    for entry in entries:
        for line in entry.read_text(encoding="utf-8").split("\n")[1:]:
            if line.strip():
                seen.add(local_path(json.loads(line)["path"]))
    return frozenset(seen)


def local_path(url: str) -> str:
    """The local path behind a ``file:`` URL, or the text itself."""
    return unquote(urlparse(url).path) if url.startswith("file:") else url


def _numbers(folder: Path) -> set[int]:
    try:
        return {int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()}
    except FileNotFoundError:
        return set()
