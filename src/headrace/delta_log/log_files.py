"""The files of a Delta log, commits and checkpoints, as actions.

Source: PROTOCOL.md of Delta, "Delta Log Entries", "Checkpoints".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.stores.paths import StoragePath, file_source, sorted_paths

# The name of a file of a checkpoint: its version, its part and the number of parts.
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")


def newest_checkpoint(log: StoragePath, version: int) -> tuple[int, list[StoragePath]]:
    """The newest complete checkpoint up to a version, and its files; -1 and no files if there is none."""
    found: dict[int, list[tuple[StoragePath, int]]] = {}
    for file in sorted_paths(log.glob("*.checkpoint*")):
        match = CHECKPOINT.fullmatch(file.name)
        if match and int(match[1]) <= version:
            found.setdefault(int(match[1]), []).append((file, int(match[2] or 1)))
    for number in sorted(found, reverse=True):
        # Several writers may have written checkpoints of the same version, with different numbers of parts.
        for parts in {parts for _, parts in found[number]}:
            files = [file for file, of in found[number] if of == parts]
            if parts == 1 or len(files) == parts:
                return number, files[:parts]
    return -1, []


def checkpointed_adds(log: StoragePath, file: StoragePath, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The add actions of a checkpoint and its sidecars.

    Args:
        log: the folder of the log.
        file: a file of the checkpoint.
        columns: the columns of its actions to read from Parquet, ``sidecar.path`` among them.
    """
    if file.suffix == ".json":
        actions = read_actions(file)
    else:
        import pyarrow.parquet as pq  # noqa: PLC0415 - takes longer than `status`, which reads no checkpoint

        stored = pq.ParquetFile(file_source(file))
        known = set(stored.schema_arrow.names)
        actions = stored.read(columns=[name for name in columns if name.split(".")[0] in known]).to_pylist()
    for action in actions:
        if action.get("add"):
            yield action["add"]
        if action.get("sidecar"):
            yield from checkpointed_adds(log, log / "_sidecars" / action["sidecar"]["path"], columns)


def read_actions(file: StoragePath) -> list[dict[str, Any]]:
    """The actions in a file with one JSON object a line, such as a commit."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]


def commit_versions(log: StoragePath) -> list[int]:
    """The versions whose commits the log still has, sorted."""
    return sorted(int(file.stem) for file in log.glob("*.json") if len(file.stem) == 20 and file.stem.isdigit())
