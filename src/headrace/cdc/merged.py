"""What the commit of a batch of change events says of it, so that no crash can part a batch from its counts."""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.cdc.feed import MergePath
from headrace.model.outcome import ChangeCounts

_OWN, _USERS = "headrace", "user_metadata"


@dataclass(frozen=True)
class Merged:
    """What became of a batch of events.

    Attributes:
        path: the way it took.
        counts: of its events; ``new_versions`` is told by the metrics of the commit.
        versions: the rows that it has added are versions.
    """

    path: MergePath
    counts: ChangeCounts
    versions: bool

    def to_text(self, users: str | None = None) -> str:
        """The text that a commit carries as Delta's ``userMetadata``, with what the user has set there."""
        own = {
            "merge_path": self.path.value,
            "tied": self.counts.tied,
            "late": self.counts.late,
            "null_overwrites": self.counts.null_overwrites,
            "versions": self.versions,
            "lone_changes": self.counts.lone_changes,
            "lone_column": self.counts.lone_column,
        }
        return json.dumps({_OWN: own, **({} if users is None else {_USERS: users})})


def merged_of(text: str | None) -> Merged | None:
    """What :meth:`Merged.to_text` has written; None for other texts."""
    try:
        said = json.loads(text or "")[_OWN]
        tied, late, blanks = (said[name] for name in ("tied", "late", "null_overwrites"))
        counts = ChangeCounts(tied, late, blanks, None, said.get("lone_changes"), said.get("lone_column"))
        return Merged(MergePath(said["merge_path"]), counts, said["versions"])
    except (ValueError, TypeError, KeyError):
        return None
