"""What a flow has read in one of its epochs: from the epoch's checkpoint, or from the file that outlives it.

A checkpoint of an older epoch is no longer used by a stream, but its positions say what the rows in the table were read
from. A full refresh and a backfill ask for that. So before a checkpoint is removed, its positions are written to
``epoch-<n>.json`` next to it; readers of epochs find them there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.atomic_write import replace_file
from headrace.checkpoints.initial_offsets import newest_initial_batch
from headrace.checkpoints.offsets import (
    Progress,
    files_first_seen,
    files_seen_with_times,
    first_offsets,
    newest_batches,
    query_id_of,
    read_progress,
)
from headrace.stores.paths import StoragePath

_FORMAT = 1
_FILE = re.compile(r"epoch-(\d+)\.json")
_NONE = -1


@dataclass(frozen=True)
class KeptPositions:
    """The positions of a checkpoint that was removed.

    Attributes:
        progress: its newest planned batch; None if none was planned.
        starts: the end offsets of its batches 0 and 1; empty where Spark had deleted them.
        files: for each file source, the paths that it listed, with modification times in milliseconds since 1970.
        skipped_files: for each file source of an initial checkpoint, the paths that it started after.
        initial_batch: the newest batch that the flow did not plan itself; -1 for none.
        query_id: the id of its query.
    """

    progress: Progress | None
    starts: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
    files: Mapping[int, frozenset[tuple[str, int]]] | None = None
    skipped_files: Mapping[int, frozenset[str]] | None = None
    initial_batch: int = _NONE
    query_id: str | None = None


@dataclass(frozen=True)
class Epoch:
    """What a flow has read in one epoch.

    Attributes:
        checkpoint: the path of its checkpoint, which may be removed.
        progress: the newest planned batch; None if none was planned, or if that is unknown.
        kept: the positions of a removed checkpoint.
        unreadable: why the file with these positions cannot be read; empty if it can, or does not exist.
    """

    checkpoint: StoragePath
    progress: Progress | None
    kept: KeptPositions | None = None
    unreadable: str = ""

    @property
    def is_lost(self) -> bool:
        """True when neither the checkpoint nor a file with its positions exists."""
        return self.kept is None and not _exists(self.checkpoint)

    @property
    def loss(self) -> str:
        """What is missing of a lost epoch."""
        if self.unreadable:
            return f"{kept_file(self.checkpoint)} cannot be read: {self.unreadable}"
        return f"{self.checkpoint} is missing"

    def offset(self, source: int) -> Any:
        """The newest position of a source, or None."""
        offsets = self.progress.offsets if self.progress else ()
        return offsets[source] if source < len(offsets) else None

    def first_offsets(self, batch: int = 0) -> tuple[Any, ...]:
        """The end offsets of batch 0 or 1; empty if unknown."""
        return first_offsets(self.checkpoint, batch) if self.kept is None else self.kept.starts[batch]

    def files_seen(self, source: int) -> frozenset[tuple[str, int]]:
        """The paths that a file source has listed, with their modification times then."""
        if self.kept is None:
            return files_seen_with_times(self.checkpoint, source)
        return (self.kept.files or {}).get(source, frozenset())

    def files_first_seen(self, source: int) -> frozenset[str]:
        """The paths in the first listing of a file source; of a removed checkpoint, only if it was an initial one."""
        if self.kept is None:
            return files_first_seen(self.checkpoint, source)
        return (self.kept.skipped_files or {}).get(source, frozenset())


def read_epoch(checkpoint: StoragePath) -> Epoch:
    """What a flow has read in the epoch of a checkpoint."""
    if _exists(checkpoint):
        found = Epoch(checkpoint, read_progress(checkpoint))
        # Another process may have removed it meanwhile.
        if _exists(checkpoint):
            return found
    try:
        kept = _kept_from(json.loads(kept_file(checkpoint).read_text(encoding="utf-8")), int(checkpoint.name))
    except (FileNotFoundError, NotADirectoryError):
        return Epoch(checkpoint, read_progress(checkpoint))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Epoch(checkpoint, None, unreadable=reason)
    return Epoch(checkpoint, kept.progress, kept)


def kept_file(checkpoint: StoragePath) -> StoragePath:
    """The file with the positions of a checkpoint that was removed."""
    return checkpoint.with_name(f"epoch-{checkpoint.name}.json")


def reason_to_keep(checkpoint: StoragePath) -> str:
    """Why the positions of a checkpoint cannot be kept without it; empty if they can."""
    if not _exists(checkpoint):
        return "it is incomplete: its file metadata is missing"
    progress = read_progress(checkpoint)
    if progress is not None and not progress.offsets:
        return f"its newest positions cannot be read ({checkpoint / 'offsets' / str(progress.batch_id)})"
    return ""


def keep_positions(checkpoint: StoragePath) -> StoragePath:
    """Write the positions of a checkpoint to the file that outlives it; the write is atomic. Returns the file."""
    progress = read_progress(checkpoint)
    starts = first_offsets(checkpoint, 0), first_offsets(checkpoint, 1)
    is_initial = starts[0] != () and starts[0] == starts[1]
    # A listing is stored before its batch is planned.
    sources = sorted(int(name) for name in _names(checkpoint / "sources") if name.isdigit())
    listed = {source: files_seen_with_times(checkpoint, source) for source in sources}
    document = {
        "format": _FORMAT,
        "epoch": int(checkpoint.name),
        "query_id": query_id_of(checkpoint),
        "progress": None if progress is None else _progress_json(progress),
        "starts": [list(offsets) for offsets in starts],
        "initial_batch": newest_initial_batch(checkpoint),
        "files": [
            {
                "source": source,
                "seen": sorted(map(list, files)),
                "skipped": sorted(files_first_seen(checkpoint, source)) if is_initial else [],
            }
            for source, files in listed.items()
            if files
        ],
    }
    file = kept_file(checkpoint)
    replace_file(file, json.dumps(document))
    return file


def epoch_numbers(folder: StoragePath) -> frozenset[int]:
    """The epochs of a flow that have a checkpoint, or a file with the positions of one that was removed."""
    return checkpoint_numbers(folder) | kept_numbers(folder)


def checkpoint_numbers(folder: StoragePath) -> frozenset[int]:
    """The epochs of a flow that have a checkpoint."""
    return frozenset(int(name) for name in _names(folder) if name.isdigit())


def kept_numbers(folder: StoragePath) -> frozenset[int]:
    """The epochs of a flow that have a file with the positions of a removed checkpoint."""
    return frozenset(int(match[1]) for name in _names(folder) if (match := _FILE.fullmatch(name)))


def newest_started_epoch(folder: StoragePath) -> int:
    """The newest epoch of a flow in which it planned a batch itself; -1 for none.

    Args:
        folder: the flow's folder, with a checkpoint for each epoch.
    """
    # The newest one has started, as a rule; older files of positions can be large.
    newest_first = sorted(epoch_numbers(folder), reverse=True)
    return next((number for number in newest_first if has_started(folder / str(number))), _NONE)


def has_started(checkpoint: StoragePath) -> bool:
    """True when a flow planned a batch itself in the epoch of a checkpoint, which may be removed."""
    planned, _ = newest_batches(checkpoint)
    if planned is not None:
        return planned > newest_initial_batch(checkpoint)
    kept = read_epoch(checkpoint).kept
    return kept is not None and kept.progress is not None and kept.progress.batch_id > kept.initial_batch


def _exists(checkpoint: StoragePath) -> bool:
    return (checkpoint / "metadata").is_file()


def _names(folder: StoragePath) -> Sequence[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _progress_json(progress: Progress) -> dict[str, Any]:
    return {
        "batch_id": progress.batch_id,
        "completed": progress.completed,
        "offsets": list(progress.offsets),
        "watermark_moved": progress.watermark_moved,
    }


def _kept_from(raw: Any, epoch: int) -> KeptPositions:
    if raw["format"] > _FORMAT:
        raise ValueError(f"it was written by a later version of Headrace, in format {raw['format']}")
    if raw["epoch"] != epoch:
        raise ValueError(f"it is about epoch {raw['epoch']}")
    read = raw["progress"]
    first, second = (tuple(offsets) for offsets in raw["starts"])
    return KeptPositions(
        progress=None
        if read is None
        else Progress(
            int(read["batch_id"]), bool(read["completed"]), tuple(read["offsets"]), bool(read["watermark_moved"])
        ),
        starts=(first, second),
        files={int(one["source"]): frozenset((str(path), int(at)) for path, at in one["seen"]) for one in raw["files"]},
        skipped_files={int(one["source"]): frozenset(map(str, one["skipped"])) for one in raw["files"]},
        initial_batch=int(raw["initial_batch"]),
        query_id=None if raw["query_id"] is None else str(raw["query_id"]),
    )
