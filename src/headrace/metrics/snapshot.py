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

_FORMAT = 3
_ROW_ID = re.compile(r"[0-9a-f]{16}-[\w-]{1,64}")


@dataclass(frozen=True)
class Snapshot:
    """A fold, the id of the last row of the event log in it, and that log.

    Attributes:
        table_id: Delta's id of the log. A log that was deleted and written again has another one.
        row_id: the last row.
        fold: the metrics of the rows up to it.
    """

    table_id: str
    row_id: str
    fold: EventFold


def read_snapshot(file: Path, version: str) -> Snapshot | None:
    """The snapshot in a file; None without one, and for a file that is damaged or from another version of Headrace."""
    try:
        document = json.loads(file.read_bytes())
        known = document["format"] == _FORMAT and document["version"] == version
        if not known or not _ROW_ID.fullmatch(document["row_id"]):
            return None
        return Snapshot(str(document["table_id"]), document["row_id"], EventFold.from_json(document["fold"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_snapshot(file: Path, version: str, snapshot: Snapshot) -> None:
    """Write a snapshot if this process may write to the storage; the next scrape is slower otherwise."""
    position = {"table_id": snapshot.table_id, "row_id": snapshot.row_id}
    document = {"format": _FORMAT, "version": version, **position, "fold": snapshot.fold.to_json()}
    with suppress(OSError):
        replace_file(file, json.dumps(document))
