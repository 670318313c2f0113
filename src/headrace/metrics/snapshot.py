"""A snapshot of folded metrics, so that a scrape reads only what came after the last one.

It is a cache: without it, or with one of another history, the whole log is folded again.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.atomic_write import replace_file
from headrace.metrics.fold import EventFold

_FORMAT = 1
_ROW_ID = re.compile(r"[0-9a-f]{16}-[\w-]{1,64}")


@dataclass(frozen=True)
class Snapshot:
    """A fold, and the id of the last row of the event log in it."""

    row_id: str
    fold: EventFold


def read_snapshot(file: Path) -> Snapshot | None:
    """The snapshot in a file; None without one, and for a file that is damaged or from another version."""
    try:
        document = json.loads(file.read_bytes())
        if document["format"] != _FORMAT or not _ROW_ID.fullmatch(document["row_id"]):
            return None
        return Snapshot(document["row_id"], EventFold.from_json(document["fold"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_snapshot(file: Path, snapshot: Snapshot) -> None:
    """Write a snapshot if this process may write to the storage; the next scrape is slower otherwise."""
    document = {"format": _FORMAT, "row_id": snapshot.row_id, "fold": snapshot.fold.to_json()}
    with suppress(OSError):
        replace_file(file, json.dumps(document))
