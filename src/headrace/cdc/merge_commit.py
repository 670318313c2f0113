"""The summary of a merged batch or snapshot inside its commit, so that no crash separates the two."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.cdc.feed import MergePath
from headrace.model.outcome import ChangeCounts

_OWN, _USERS = "headrace", "user_metadata"


class WritePath(str, Enum):
    """How the changes of a batch were written to its table, and why; users see the value."""

    REPLACED = "rows are taken out and others added"
    LARGE = "MERGE: the batch is too large to be sent to every task"
    FEED = "MERGE: the table has a change feed, which tells rows with new values from others"
    TRACKED = "MERGE: the table tracks its rows"
    COLUMNS = "MERGE: the table has columns that the events do not set, or of other types"
    DOUBLED = "MERGE: the table has several rows with one key, or rows without one"
    UNKNOWN = "MERGE: this version of Delta is not known to Headrace"


@dataclass(frozen=True)
class MergeSummary:
    """The result of merging a batch of events or a snapshot.

    Attributes:
        merge_path: how the changes were computed.
        counts: counts of the events, without ``new_versions``, which the commit's metrics contain. None for a snapshot.
        versions: the added rows are versions.
        write_path: how the changes were written; None if the commit does not record it.
    """

    merge_path: MergePath
    counts: ChangeCounts | None
    versions: bool
    write_path: WritePath | None = None

    def to_text(self, user_metadata: str | None = None) -> str:
        """The text for Delta's ``userMetadata``, including the metadata that the user has set."""
        own: dict[str, Any] = {
            "merge_path": self.merge_path.value,
            "write_path": None if self.write_path is None else self.write_path.value,
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
        return json.dumps({_OWN: own, **({} if user_metadata is None else {_USERS: user_metadata})})


def merge_summary_of(text: str | None) -> MergeSummary | None:
    """The summary that :meth:`MergeSummary.to_text` has written; None for other texts."""
    try:
        raw = json.loads(text or "")[_OWN]
        counts = None
        if "tied" in raw:
            tied, late, blanks = (raw[name] for name in ("tied", "late", "null_overwrites"))
            counts = ChangeCounts(tied, late, blanks, None, raw.get("lone_changes"), raw.get("lone_column"))
        write_path = raw.get("write_path")
        return MergeSummary(
            MergePath(raw["merge_path"]), counts, raw["versions"], None if write_path is None else WritePath(write_path)
        )
    except (ValueError, TypeError, KeyError):
        return None
