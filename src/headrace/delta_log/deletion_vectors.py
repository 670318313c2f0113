"""The files of a table version and the rows that deletion vectors delete in them, from the table's log alone.

delta-rs would read the vectors themselves, and refuses tables whose types were widened.

Source: PROTOCOL.md of Delta, "Deletion Vectors", "Checkpoints", "Action Reconciliation".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace.errors import PipelineError

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")
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
    log = Path(table) / "_delta_log"
    known, files = _newest_checkpoint(log, version)
    deleted = {add["path"]: _cardinality(add) for file in files for add in _adds(log, file)}
    for number in range(known + 1, version + 1):
        commit = log / f"{number:020d}.json"
        try:
            actions = _lines(commit)
        except FileNotFoundError as error:
            raise PipelineError("STORAGE.TABLE_UNREADABLE", path=table, reason=f"{commit.name} is missing") from error
        # A file whose vector changes is removed and added again.
        for action in actions:
            if "remove" in action:
                deleted.pop(action["remove"]["path"], None)
        deleted |= {action["add"]["path"]: _cardinality(action["add"]) for action in actions if "add" in action}
    return deleted


def _newest_checkpoint(log: Path, version: int) -> tuple[int, list[Path]]:
    """The newest checkpoint up to a version, and its files; -1 and no files if there is none."""
    found: dict[int, list[tuple[Path, int]]] = {}
    for file in sorted(log.glob("*.checkpoint*")):
        match = _CHECKPOINT.fullmatch(file.name)
        if match and int(match[1]) <= version:
            found.setdefault(int(match[1]), []).append((file, int(match[2] or 1)))
    for number in sorted(found, reverse=True):
        # Several writers may have written checkpoints of the same version, with different numbers of parts.
        for parts in {parts for _, parts in found[number]}:
            files = [file for file, of in found[number] if of == parts]
            if parts == 1 or len(files) == parts:
                return number, files[:parts]
    return -1, []


def _adds(log: Path, file: Path) -> Iterator[dict[str, Any]]:
    """The add actions of a checkpoint and its sidecars."""
    actions = _lines(file) if file.suffix == ".json" else pq.ParquetFile(file).read(columns=_COLUMNS).to_pylist()
    for action in actions:
        if action.get("add"):
            yield action["add"]
        if action.get("sidecar"):
            yield from _adds(log, log / "_sidecars" / action["sidecar"]["path"])


def _cardinality(add: dict[str, Any]) -> int:
    return int((add.get("deletionVector") or {}).get("cardinality") or 0)


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
