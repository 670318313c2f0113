"""Logs of Delta tables in a bucket, each by one listing, and copies of them on this machine's disk.

delta-rs would list the log of a table each time that it opens it, and read its commits again for each transaction that
is asked for. The files of a log never change, so a copy needs only those that it does not have. It has no rows: what is
opened on it says what the log says.

Source: PROTOCOL.md of Delta, "Delta Log Entries", "Checkpoints".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.stores.listed_area import ListedArea
from headrace.stores.object_store import PAGE_SIZE, ObjectMeta, ObjectStore

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG = "_delta_log"
_LAST_CHECKPOINT = "_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json")
# A checkpoint of one file or of several. Those with sidecars have other names, and are read where they are.
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
# A copy with more commits starts at a newer checkpoint, if there is one.
MAX_COMMITS = 50


@dataclass(frozen=True)
class LogFiles:
    """The files of a log that make its newest version.

    Attributes:
        version: the newest version.
        start: the version of the checkpoint that they start with; -1 for none.
        files: the objects: that checkpoint, and the commits after it.
    """

    version: int
    start: int
    files: tuple[ObjectMeta, ...]


def list_log(store: ObjectStore, folder: str, start: int) -> ListedArea:
    """List a log, mostly by one request.

    Args:
        store: the bucket.
        folder: the log.
        start: the version of the checkpoint that a copy starts with; -1 for none.
    """
    if start >= 0:
        found = _listed_from(store, folder, start)
        # Otherwise the table was deleted, and perhaps created again, or the log was cleaned up.
        if start in _versions(found)[1]:
            return found
    pages = store.list_pages(folder)
    first = next(pages, [])
    if len(first) >= PAGE_SIZE:
        checkpointed = _last_checkpoint(store, folder)
        if checkpointed >= 0:
            return _listed_from(store, folder, checkpointed)
    return ListedArea(folder, "", {meta.key: meta for page in ([first], pages) for one in page for meta in one})


def newest_files(area: ListedArea, known: Collection[str] = ()) -> LogFiles | None:
    """What a copy needs; None if the log is not complete.

    Args:
        area: the log.
        known: the names of files that need not be read. If an old checkpoint is among them, or the first commit, and
            few commits follow, the copy starts there.
    """
    commits, parts = _versions(area)
    if not commits:
        return None
    newest = max(commits)
    complete = [number for number, of in parts.items() if number <= newest and _is_complete(of)]
    starts = sorted(one for one in (-1, *complete) if all(at in commits for at in range(one + 1, newest + 1)))
    if area.first:
        starts = [one for one in starts if one >= 0]
    if not starts:
        return None
    near = [one for one in starts if newest - one <= MAX_COMMITS and _is_known(one, parts, commits, known)]
    start = near[0] if near else starts[-1]
    files = [*parts.get(start, ()), *(commits[at] for at in range(start + 1, newest + 1))]
    return LogFiles(newest, start, tuple(files))


def checkpoint_of(names: Iterable[str]) -> int:
    """The version of the checkpoint among the files of a log; -1 for none."""
    return max((int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))), default=-1)


def copied_table(version: int, files: Mapping[str, bytes], folder: Path) -> DeltaTable | None:
    """A table whose log is copied into a folder; None if delta-rs cannot open it.

    Args:
        version: its newest version.
        files: the files of the log by name.
        folder: where to copy them.
    """
    from deltalake import DeltaTable  # noqa: PLC0415 - verbs that open no table start without it
    from deltalake.exceptions import DeltaError  # noqa: PLC0415 - the same

    log = folder / LOG
    log.mkdir(parents=True)
    for name, content in files.items():
        (log / name).write_bytes(content)
    try:
        table = DeltaTable(str(folder))
    except DeltaError:
        # The table itself says why.
        return None
    return table if table.version() == version else None


def _listed_from(store: ObjectStore, folder: str, version: int) -> ListedArea:
    first = f"{folder}/{version:020d}"
    objects = {meta.key: meta for page in store.list_pages(folder, first) for meta in page}
    return ListedArea(folder, first, objects)


def _versions(area: ListedArea) -> tuple[dict[int, ObjectMeta], dict[int, list[ObjectMeta]]]:
    """The commits and the parts of checkpoints of a log by version."""
    commits: dict[int, ObjectMeta] = {}
    checkpoints: dict[int, list[ObjectMeta]] = {}
    for meta in area.objects.values():
        if match := _COMMIT.fullmatch(meta.name):
            commits[int(match[1])] = meta
        elif match := _CHECKPOINT.fullmatch(meta.name):
            checkpoints.setdefault(int(match[1]), []).append(meta)
    return commits, checkpoints


def _is_known(
    start: int, parts: Mapping[int, list[ObjectMeta]], commits: Mapping[int, ObjectMeta], known: Collection[str]
) -> bool:
    return all(meta.name in known for meta in (parts[start] if start >= 0 else [commits[0]]))


def _is_complete(parts: list[ObjectMeta]) -> bool:
    """Whether these are all parts of one checkpoint; several writers may have written it in other numbers of parts."""
    numbers = {int(match[2] or 1) for meta in parts if (match := _CHECKPOINT.fullmatch(meta.name))}
    return numbers == {len(parts)}


def _last_checkpoint(store: ObjectStore, folder: str) -> int:
    try:
        return int(json.loads(store.get(f"{folder}/{_LAST_CHECKPOINT}")[0])["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return -1
