"""The files of a table version and the rows that deletion vectors delete in them, from the table's log alone.

delta-rs would read the vectors themselves, and refuses tables whose types were widened.

Source: PROTOCOL.md of Delta, "Deletion Vectors", "Checkpoints", "Action Reconciliation".
"""

from __future__ import annotations

from typing import Any

from headrace.delta_log.log_files import checkpointed_adds, newest_checkpoint, read_actions
from headrace.errors import PipelineError
from headrace.stores.paths import storage_path

_COLUMNS = ["add.path", "add.deletionVector.cardinality", "sidecar.path"]


def deleted_rows(table: str, version: int) -> int:
    """The number of rows that are in the files of a table version, but deleted from the table.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, if the log is incomplete.
    """
    return sum(live_files(table, version).values())


def live_files(table: str, version: int) -> dict[str, int]:
    """The files of a table version as the log names them, each with the number of its deleted rows.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, if the log is incomplete.
    """
    log = storage_path(table) / "_delta_log"
    known, files = newest_checkpoint(log, version)
    deleted = {add["path"]: _cardinality(add) for file in files for add in checkpointed_adds(log, file, _COLUMNS)}
    for number in range(known + 1, version + 1):
        commit = log / f"{number:020d}.json"
        try:
            actions = read_actions(commit)
        except FileNotFoundError as error:
            raise PipelineError("STORAGE.TABLE_UNREADABLE", path=table, reason=f"{commit.name} is missing") from error
        # A file whose vector changes is removed and added again.
        for action in actions:
            if "remove" in action:
                deleted.pop(action["remove"]["path"], None)
        deleted |= {action["add"]["path"]: _cardinality(action["add"]) for action in actions if "add" in action}
    return deleted


def _cardinality(add: dict[str, Any]) -> int:
    return int((add.get("deletionVector") or {}).get("cardinality") or 0)
