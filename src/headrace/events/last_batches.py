"""The newest batch of each flow in the event log, folded over what the log had at the last time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.delta_log.tables import Commit, TableVersion, commit_actions, table_version_or_none
from headrace.events.reader import EventReader
from headrace.stores.paths import snapshot_of, storage_path

# The newest epoch and its newest batch, by the names of flow and dataset.
Batches: TypeAlias = dict[tuple[str, str], tuple[int, int]]
_NAME = "last batches"
_FORMAT = 1
_UNKNOWN = "?"


@dataclass(frozen=True)
class _Fold:
    """The batches of a version of a log, and what identifies them."""

    version: int
    log: list[Any]
    batches: Batches


def last_batches(path: str) -> Batches:
    """The newest epoch and its newest batch, by the names of flow and dataset.

    In a snapshot of a bucket, only what was appended since the last time is read.

    Args:
        path: the event log.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    snapshot = snapshot_of(storage_path(path))
    known = None
    if snapshot is not None:
        # What cannot be read is reported below.
        with suppress(OSError):
            known = table_version_or_none(path)
    if snapshot is None or known is None:
        return EventReader(path).last_batches()
    before = _parsed(snapshot.contents.kept_answer(_NAME))
    first = None if before is None else _first_appended(path, before, known)
    if before is None or first is None:
        batches = EventReader(path).last_batches()
    else:
        batches = dict(before.batches)
        for names, batch in (EventReader(path).last_batches(first) if first else {}).items():
            batches[names] = max(batch, batches.get(names, batch))
        if before.version == known.version:
            return batches
    snapshot.contents.keep_answer(
        _NAME, _text(_Fold(known.version, _identity(path, known.table_id, known.version), batches))
    )
    return batches


def _first_appended(path: str, before: _Fold, now: TableVersion) -> str | None:
    """The smallest id that was appended since; empty for none, None if rows were removed or that is unknown."""
    if before.version > now.version or before.log != _identity(path, now.table_id, before.version):
        return None
    ids: list[str] = []
    for version in range(before.version + 1, now.version + 1):
        actions = commit_actions(path, version)
        if actions is None:
            return None
        for kind, change in (found for action in actions for found in action.items()):
            if kind in ("add", "remove") and change.get("dataChange", True):
                ids.append(_smallest_id(change) if kind == "add" else _UNKNOWN)
    return None if _UNKNOWN in ids else min(ids, default="")


def _smallest_id(file: Mapping[str, Any]) -> str:
    try:
        return str(json.loads(file["stats"])["minValues"]["id"])
    except (KeyError, TypeError, ValueError):
        return _UNKNOWN


def _identity(path: str, table_id: str, version: int) -> list[Any]:
    """Tells a version of the log from one of a log that was created again."""
    return [table_id, *(Commit.of(path, version).identity or (_UNKNOWN,))]


def _text(fold: _Fold) -> bytes:
    batches = [[*names, *batch] for names, batch in fold.batches.items()]
    return json.dumps({"format": _FORMAT, "version": fold.version, "log": fold.log, "batches": batches}).encode()


def _parsed(text: bytes | None) -> _Fold | None:
    raw = None if text is None else json.loads(text)
    if raw is None or raw["format"] != _FORMAT:
        return None
    batches = {(str(flow), str(dataset)): (int(epoch), int(batch)) for flow, dataset, epoch, batch in raw["batches"]}
    return _Fold(int(raw["version"]), raw["log"], batches)
