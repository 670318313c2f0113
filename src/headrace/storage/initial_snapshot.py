"""How a new stream reads a table of the pipeline: commit by commit, where that gives the rows that the table holds.

Delta begins a stream with the files that a table holds now, for which it rebuilds and sorts the table's state: four
works of Spark, which cost a small flow more than its rows. A table that was only ever added to has the same rows in its
commits, whose files are lines of its log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.delta_log.tables import TableState, commit_actions
from headrace.checkpoints.offsets import first_offsets, read_progress

# Each commit is a file to read. A table with more of them mostly holds more too, beside which Delta's way costs little.
MOST_COMMITS = 50


def reads_commits(table: TableState, checkpoint: Path) -> bool:
    """True when a stream of *checkpoint* can read a table's commits from the first one, and gets the same rows.

    While its first batch is not done, a stream has to be started in the way in which that batch was planned. The answer
    is the same then, because commits are never changed.
    """
    progress = read_progress(checkpoint)
    if progress is None:
        return table.version < MOST_COMMITS and _only_added_to(table.path, table.version)
    if progress.batch_id > 0 or progress.completed:
        return False
    ends = [offset for offset in first_offsets(checkpoint) if is_of(offset, table.table_id)]
    if not ends or any(offset.get("isStartingVersion") for offset in ends):
        return False
    return _only_added_to(table.path, max(int(offset["reservoirVersion"]) for offset in ends) - 1)


def is_of(offset: Any, table_id: str) -> bool:
    """True when a position is one in a Delta table of this id."""
    return isinstance(offset, dict) and offset.get("reservoirId") == table_id


def _only_added_to(path: str, last: int) -> bool:
    """True when every commit up to a version is in the log, and none but the first has done anything but add files."""
    return all(_only_adds(path, version) for version in range(last + 1))


def _only_adds(path: str, version: int) -> bool:
    actions = commit_actions(path, version)
    if actions is None:
        return False
    allowed = {"commitInfo", "txn", "add"} | ({"metaData", "protocol"} if version == 0 else set())
    kinds = {kind for action in actions for kind in action}
    return kinds <= allowed and all(action["add"].get("dataChange", True) for action in actions if "add" in action)
