"""Whose turn it is to change a target: its flows share what is remembered beside it, and its files are put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock


@dataclass
class TableLock:
    """Of one target in one update.

    Attributes:
        lock: is held while a batch or a snapshot is merged, and while small files are put together.
        truncated: a truncate is remembered.
        forgot: something is forgotten that an event could come too late for.
        tidy: all that is remembered belongs to batches that are in the target.
        looked_at: when it was last looked for what may be forgotten, in seconds since 1970.
    """

    lock: Lock = field(default_factory=Lock)
    tidy: bool = False
    truncated: bool = False
    forgot: bool = False
    looked_at: float | None = None
