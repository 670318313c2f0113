"""Old parts of a flow's folder that no stream needs: checkpoints of older epochs, damaged files, drafts of a crash.

Two checkpoints stay: that of the current epoch, and the one before it. A reset by mistake can then be looked into, and
an update on another host that lost the lease does not find its files gone. What a full refresh or a backfill asks of an
older epoch, its positions, outlives the checkpoint (:mod:`headrace.checkpoints.epochs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.checkpoints.epochs import checkpoint_numbers, has_started, keep_positions, reason_to_keep
from headrace.checkpoints.offsets import batch_metadata, newest_batches
from headrace.storage.health import DAMAGED_FOLDER, FlowHealth
from headrace.storage.removal import Size, remove, size_of
from headrace.stores.paths import StoragePath, sorted_paths

# The draft of an initial checkpoint, which has the epoch and a process id in its name.
_DRAFT = re.compile(r"\.\d+\.\d+")


class PartKind(str, Enum):
    """What an old part of a flow's folder is."""

    EPOCH = "epoch"
    DAMAGED = "damaged files"
    DRAFT = "draft"
    FLOW = "flow"
    STATE = "flow state"
    CHANGES = "retained events"
    QUARANTINE = "quarantine"
    VIEW = "view"
    TABLE = "table"


@dataclass(frozen=True)
class OldPart:
    """A part of the storage that can be removed.

    Attributes:
        dataset: the dataset that it belongs to.
        flow: the flow that it belongs to; empty if it belongs to the dataset.
        kind: what it is.
        path: where it is.
        size: its files and bytes.
        last_used_at: when it was last used, in seconds since 1970; 0 if that does not matter.
        spared: names in the folder that stay; the folder stays with them.
    """

    dataset: str
    flow: str
    kind: PartKind
    path: StoragePath
    size: Size
    last_used_at: float = 0.0
    spared: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The part in a few words."""
        numbered = self.kind in (PartKind.EPOCH, PartKind.DAMAGED)
        return f"{self.kind.value} {self.path.name}" if numbered else self.kind.value

    def to_json(self) -> dict[str, Any]:
        """The part for programs."""
        return {
            "dataset": self.dataset,
            "flow": self.flow or None,
            "kind": self.kind.value,
            "path": str(self.path),
            "files": self.size.files,
            "bytes": self.size.size_bytes,
            "last_used_at": self.last_used_at or None,
        }


@dataclass(frozen=True)
class KeptPart:
    """An old part that stays, and why."""

    dataset: str
    flow: str
    part: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The part for programs."""
        return {"dataset": self.dataset, "flow": self.flow, "part": self.part, "reason": self.reason}


@dataclass(frozen=True)
class OldParts:
    """The old parts of a flow: those that can be removed, and those that stay."""

    removable: tuple[OldPart, ...]
    kept: tuple[KeptPart, ...]


def old_parts(flow: FlowHealth, unused_since: float) -> OldParts:
    """The old parts of a flow.

    A flow that cannot continue keeps everything: an older epoch may be what it can be restored from.

    Args:
        flow: the flow.
        unused_since: parts that were used later stay, in seconds since 1970.
    """
    folder, dataset, name = flow.stored.file.parent, str(flow.stored.dataset), flow.stored.name
    found = [*_epochs(flow, folder), *_damaged(flow, folder), *_drafts(flow, folder)]
    if not found:
        return OldParts((), ())
    if flow.problem is not None:
        reason = f"the flow cannot continue ({flow.problem.code}); repair it first"
        return OldParts((), tuple(KeptPart(dataset, name, part.label, reason) for part in found))
    kept, removable = [], []
    for part in found:
        reason = _reason_to_keep(part, unused_since)
        if reason:
            kept.append(KeptPart(dataset, name, part.label, reason))
        else:
            removable.append(part)
    return OldParts(tuple(removable), tuple(kept))


def remove_part(part: OldPart, removed: StoragePath) -> None:
    """Remove an old part; the positions of a checkpoint are kept. Safe to repeat after a crash.

    Args:
        part: what to remove.
        removed: the folder in which it is deleted.
    """
    if part.kind is PartKind.EPOCH:
        keep_positions(part.path)
    if not part.spared:
        remove(part.path, removed)
        return
    for entry in sorted_paths(part.path.iterdir()):
        if entry.name not in part.spared:
            remove(entry, removed)


def last_used_at(checkpoint: StoragePath) -> float:
    """When the newest batch of a checkpoint was planned, in seconds since 1970; else when its files were written."""
    planned, _ = newest_batches(checkpoint)
    if planned is not None:
        with suppress(OSError, ValueError, TypeError, AttributeError):
            at_ms = float(batch_metadata(checkpoint, planned).get("batchTimestampMs", 0))
            if at_ms > 0:
                return at_ms / 1000
    return _modified_at(checkpoint / "metadata")


def _reason_to_keep(part: OldPart, unused_since: float) -> str:
    if part.last_used_at > unused_since:
        return "it was used later than the given age"
    return reason_to_keep(part.path) if part.kind is PartKind.EPOCH else ""


def _epochs(flow: FlowHealth, folder: StoragePath) -> Iterator[OldPart]:
    if not flow.has_checkpoint:
        return
    older = sorted(number for number in checkpoint_numbers(folder) if number < flow.batches.epoch)
    # The epoch before the current one; a reset that crashed may have left newer checkpoints without batches.
    started = (number for number in reversed(older) if has_started(folder / str(number)))
    before = next(started, older[-1] if older else None)
    for number in older:
        if number == before:
            continue
        checkpoint = folder / str(number)
        yield _part(flow, PartKind.EPOCH, checkpoint, last_used_at(checkpoint))


def _damaged(flow: FlowHealth, folder: StoragePath) -> Iterator[OldPart]:
    for moved in sorted_paths((folder / DAMAGED_FOLDER).glob("*")):
        yield _part(flow, PartKind.DAMAGED, moved, _modified_at(moved))


def _drafts(flow: FlowHealth, folder: StoragePath) -> Iterator[OldPart]:
    for draft in sorted_paths(folder.glob(".*")):
        if draft.is_dir() and _DRAFT.fullmatch(draft.name):
            yield _part(flow, PartKind.DRAFT, draft, 0.0)


def _part(flow: FlowHealth, kind: PartKind, path: StoragePath, used_at: float) -> OldPart:
    return OldPart(str(flow.stored.dataset), flow.stored.name, kind, path, size_of(path), used_at)


def _modified_at(path: StoragePath) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
