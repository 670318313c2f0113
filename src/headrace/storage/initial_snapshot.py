"""How a new stream reads a table of the pipeline: commit by commit, if that gives the rows of the table.

Delta starts a stream with a snapshot of the table's files. To get it, Delta rebuilds and sorts the table's state in
four Spark jobs, which cost a small flow more than its rows. In an append-only table the commits have the same rows,
and their files are lines of its log.
"""

from __future__ import annotations

from typing import Any

from headrace.checkpoints.offsets import first_offsets, read_progress
from headrace.delta_log.tables import TableState, commit_actions
from headrace.stores.paths import StoragePath

# Each commit is a file to read. A table with more commits mostly has more rows, for which Delta's way costs little.
MOST_COMMITS = 50


def reads_commits(table: TableState, checkpoint: StoragePath) -> bool:
    """True when a stream of *checkpoint* gets the same rows by reading a table's commits from the first one.

    Until its first batch is done, a stream must be started in the way that batch was planned. The answer stays the
    same, because commits never change.
    """
    progress = read_progress(checkpoint)
    if progress is None:
        return table.version < MOST_COMMITS and _only_added_to(table.path, table.version)
    if progress.batch_id > 0 or progress.completed:
        return False
    ends = [offset for offset in first_offsets(checkpoint) if is_offset_of(offset, table.table_id)]
    if not ends or any(offset.get("isStartingVersion") for offset in ends):
        return False
    return _only_added_to(table.path, max(int(offset["reservoirVersion"]) for offset in ends) - 1)


def is_offset_of(offset: Any, table_id: str) -> bool:
    """True when an offset is one of the Delta table with this id."""
    return isinstance(offset, dict) and offset.get("reservoirId") == table_id


def _only_added_to(path: str, last: int) -> bool:
    """True when every commit up to a version is in the log, and all but the first only added files."""
    return all(_only_adds(path, version) for version in range(last + 1))


def _only_adds(path: str, version: int) -> bool:
    actions = commit_actions(path, version)
    if actions is None:
        return False
    allowed = {"commitInfo", "txn", "add"} | ({"metaData", "protocol"} if version == 0 else set())
    kinds = {kind for action in actions for kind in action}
    return kinds <= allowed and all(action["add"].get("dataChange", True) for action in actions if "add" in action)
