"""What a commit changed in a table: its files, their bytes, the rows of new files, and its columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CommitChanges:
    """The changes of a commit. A file whose rows are marked as deleted is neither added nor removed.

    Attributes:
        files_added: the number of new files, those that replace others without a change of rows among them.
        files_removed: the number of files that no longer belong to the table.
        bytes_added: of the new files.
        bytes_removed: of the removed files; None if the commit does not have their sizes.
        rows_added: of the new files, without those that replace others without a change of rows; None if the commit has
            no statistics of them.
        schema: Spark's type of a row as JSON, if the commit has it: the first one has, and each that changes columns.
    """

    files_added: int
    files_removed: int
    bytes_added: int
    bytes_removed: int | None
    rows_added: int | None
    schema: str | None = None

    @classmethod
    def of(cls, actions: Iterable[Mapping[str, Any]]) -> CommitChanges:
        """The changes of a commit with these actions of Delta's log."""
        actions = tuple(actions)
        added = {action["add"]["path"]: action["add"] for action in actions if "add" in action}
        removed = {action["remove"]["path"]: action["remove"] for action in actions if "remove" in action}
        new = [file for path, file in added.items() if path not in removed]
        old = [file for path, file in removed.items() if path not in added]
        sizes = [file.get("size") for file in old]
        rows = [_rows(file) for file in new if file.get("dataChange", True)]
        schemas = (action["metaData"].get("schemaString") for action in actions if "metaData" in action)
        return cls(
            len(new),
            len(old),
            sum(int(file["size"]) for file in new),
            _sum(sizes),
            _sum(rows),
            next((str(one) for one in schemas if one), None),
        )


def _rows(file: Mapping[str, Any]) -> int | None:
    try:
        return int(json.loads(file.get("stats") or "{}")["numRecords"])
    except (LookupError, TypeError, ValueError):
        return None


def _sum(values: Iterable[Any]) -> int | None:
    """The sum; None if one is unknown."""
    found = [*values]
    return None if None in found else sum(map(int, found))
