"""The last batch that each sink of a flow has taken: one small file for each epoch of the flow.

Sinks that recognise repeated batches need no such record. The others get a batch twice if a crash comes between the
delivery and this record.
"""

from __future__ import annotations

import json

from headrace.atomic_write import replace_file
from headrace.stores.paths import StoragePath


def last_delivered(folder: StoragePath, epoch: int) -> dict[str, int]:
    """The number of the last batch that each sink has taken, by the sink's name.

    Args:
        folder: the flow's folder, with its record.
        epoch: the flow's epoch.
    """
    try:
        found = json.loads(_file(folder, epoch).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {str(sink): int(batch) for sink, batch in found.items()}


def record_delivered(folder: StoragePath, epoch: int, batches: dict[str, int]) -> None:
    """Store what :func:`last_delivered` returns; the write is atomic."""
    file = _file(folder, epoch)
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps(batches, sort_keys=True))


def _file(folder: StoragePath, epoch: int) -> StoragePath:
    return folder / f"delivered-{epoch}.json"
