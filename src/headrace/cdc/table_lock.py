"""Serializes writes to a target: its flows share retained events, and compaction rewrites its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock


@dataclass
class TableLock:
    """The lock of one target in one update, and what is known of its retained events.

    Attributes:
        lock: held while a batch or a snapshot is merged, and while small files are compacted.
        is_clean: all retained events belong to batches that are in the target.
        has_truncates: a truncate is retained.
        has_expired: some events were removed, so that later events may be too late.
        checked_at: when expired events were last searched, in seconds since 1970.
    """

    lock: Lock = field(default_factory=Lock)
    is_clean: bool = False
    has_truncates: bool = False
    has_expired: bool = False
    checked_at: float | None = None
