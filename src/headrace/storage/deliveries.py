"""Up to which batch each sink of a flow has taken everything; one small file for each of the flow's epochs.

Sinks that tell repeats themselves need no such note. For the others it leaves one moment in which a crash makes them
take a batch twice: between the delivery and the note.
"""

from __future__ import annotations

import json
import os
from pathlib import Path


def last_delivered(folder: Path, epoch: int) -> dict[str, int]:
    """The number of the last batch that each sink has taken, by the sink's name.

    Args:
        folder: of the flow, in which its record lies.
        epoch: of the flow.
    """
    try:
        found = json.loads(_file(folder, epoch).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {str(sink): int(batch) for sink, batch in found.items()}


def note_delivered(folder: Path, epoch: int, batches: dict[str, int]) -> None:
    """Store what :func:`last_delivered` gives; whole, or not at all."""
    file = _file(folder, epoch)
    folder.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(batches, stream, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def _file(folder: Path, epoch: int) -> Path:
    return folder / f"delivered-{epoch}.json"
