"""The commit of a Delta table that a batch made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BatchCommit:
    """The version of the table that a batch made, and the files that it added.

    Attributes:
        version: of the table.
        files: the number of files with rows.
        size: their bytes.
    """

    version: int
    files: int
    size: int

    @classmethod
    def of(cls, version: int, actions: Iterable[Mapping[str, Any]]) -> BatchCommit:
        """The commit with these actions of Delta's log."""
        actions = tuple(actions)
        # A file whose rows are marked as deleted is removed and added again.
        kept = {action["remove"]["path"] for action in actions if "remove" in action}
        added = [action["add"] for action in actions if "add" in action]
        sizes = [int(file["size"]) for file in added if file.get("dataChange", True) and file["path"] not in kept]
        return cls(version, len(sizes), sum(sizes))
