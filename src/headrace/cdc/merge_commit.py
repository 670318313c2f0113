"""What the commit of a batch of change events, or of a snapshot, says of it: no crash can part it from its counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.cdc.feed import MergePath
from headrace.model.outcome import ChangeCounts

_OWN, _USERS = "headrace", "user_metadata"


class WritePath(str, Enum):
    """How what a batch does to its table was written, and why; the value is for the reader."""

    REPLACED = "rows are taken out and others added"
    LARGE = "MERGE: the batch is too large to be sent to every task"
    FEED = "MERGE: the table has a change feed, which tells rows with new values from others"
    TRACKED = "MERGE: the table tracks its rows"
    COLUMNS = "MERGE: the table has columns that the events do not set, or of other types"
    DOUBLED = "MERGE: the table has several rows with one key, or rows without one"
    UNKNOWN = "MERGE: this version of Delta is not known to Headrace"


@dataclass(frozen=True)
class Merged:
    """What became of a batch of events, or of a snapshot.

    Attributes:
        path: the way it took to what it does to its table.
        written: the way that took to the table; None where the commit does not tell.
        counts: of its events; ``new_versions`` is told by the metrics of the commit. None for a snapshot.
        versions: the rows that it has added are versions.
    """

    path: MergePath
    counts: ChangeCounts | None
    versions: bool
    written: WritePath | None = None

    def to_text(self, users: str | None = None) -> str:
        """The text that a commit carries as Delta's ``userMetadata``, with what the user has set there."""
        own: dict[str, Any] = {
            "merge_path": self.path.value,
            "write_path": None if self.written is None else self.written.value,
            "versions": self.versions,
        }
        if self.counts is not None:
            own |= {
                "tied": self.counts.tied,
                "late": self.counts.late,
                "null_overwrites": self.counts.null_overwrites,
                "lone_changes": self.counts.lone_changes,
                "lone_column": self.counts.lone_column,
            }
        return json.dumps({_OWN: own, **({} if users is None else {_USERS: users})})


def merged_of(text: str | None) -> Merged | None:
    """What :meth:`Merged.to_text` has written; None for other texts."""
    try:
        said = json.loads(text or "")[_OWN]
        counts = None
        if "tied" in said:
            tied, late, blanks = (said[name] for name in ("tied", "late", "null_overwrites"))
            counts = ChangeCounts(tied, late, blanks, None, said.get("lone_changes"), said.get("lone_column"))
        written = said.get("write_path")
        return Merged(
            MergePath(said["merge_path"]), counts, said["versions"], None if written is None else WritePath(written)
        )
    except (ValueError, TypeError, KeyError):
        return None
