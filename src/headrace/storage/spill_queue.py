"""Batches that wait in the pipeline's storage for a sink that is down; each has a folder of Parquet files.

A folder's name tells its place in the order of delivery and which batch it is, and is never given twice. It gets its
name once it is whole, and loses it before it is removed, so that a crash leaves batches that wait or none.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace.settings.storage import path_safe

_FOLDER, _ONLY, _ABOUT, _ROWS = "waiting", "sink", "batch.json", "rows"
_NAME = re.compile(r"(?P<place>\d{12})\.(?P<epoch>-?\d+)\.(?P<number>\d+)\.[0-9a-f]{32}")
_DRAFT, _GONE = ".draft-", ".gone-"


@dataclass(frozen=True)
class SpilledBatch:
    """A batch that a sink has not taken.

    Attributes:
        folder: where it is.
        place: in the order of delivery.
        epoch: of the flow.
        number: of the batch in its epoch.
    """

    folder: Path
    place: int
    epoch: int
    number: int

    @property
    def data(self) -> Path:
        """The folder of its Parquet files."""
        return self.folder / _ROWS

    def transaction(self) -> str:
        """What the flow delivers to the sink in the batch's epoch, by its name."""
        return str(self._about()["transaction"])

    def positions(self) -> str:
        """A digest of where the batch ended in its sources; empty where that is not known."""
        return str(self._about().get("positions", ""))

    def rows(self) -> int:
        """How many it has."""
        return int(self._about()["rows"])

    def _about(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / _ABOUT).read_text(encoding="utf-8"))
        return found


@dataclass(frozen=True)
class BatchToKeep:
    """Which batch begins to wait: its transaction, the epoch of the flow, its number in that, and where it ends."""

    transaction: str
    epoch: int
    number: int
    positions: str = ""


def waiting_places(folder: Path, sink: str, members: Iterable[str] = ()) -> dict[str, Path]:
    """Where batches of a flow wait for each of its sinks.

    Args:
        folder: of the flow, in which its record lies.
        sink: the flow's target; that of a flow with one sink may get another name, and what waits is still its.
        members: the sinks that it stands for, if it does.
    """
    among = {member: folder / _FOLDER / path_safe(member) for member in members}
    return among or {sink: folder / _FOLDER / _ONLY}


def waiting_batches(place: Path) -> list[SpilledBatch]:
    """What waits at one of :func:`waiting_places`, in the order of delivery."""
    try:
        named = [(_NAME.fullmatch(found.name), found) for found in place.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [
        SpilledBatch(folder, int(name["place"]), int(name["epoch"]), int(name["number"]))
        for name, folder in named
        if name is not None
    ]
    return sorted(found, key=lambda batch: batch.place)


def keep_waiting(place: Path, batch: BatchToKeep, write: Callable[[Path], None], fence: Callable[[], None]) -> int:
    """Let a batch wait behind those that do; how many rows it has. One without rows need not wait.

    Args:
        place: one of :func:`waiting_places`.
        batch: which one.
        write: writes the rows as Parquet files into the folder that it gets.
        fence: returns while this update may commit.

    Raises:
        OSError: what was written is not there any more.
    """
    token = uuid.uuid4().hex
    draft = place / f"{_DRAFT}{token}"
    try:
        rows = _drafted(draft, batch, write)
        if rows:
            behind = max((one.place for one in waiting_batches(place)), default=0) + 1
            fence()
            draft.rename(place / f"{behind:012}.{batch.epoch}.{batch.number}.{token}")
    finally:
        _remove([draft])
    for path in (place, *place.parents[:2]):
        _sync(path)
    return rows


def _drafted(draft: Path, batch: BatchToKeep, write: Callable[[Path], None]) -> int:
    """Write what waits, safe from the loss of power; how many rows it has."""
    draft.mkdir(parents=True)
    write(draft / _ROWS)
    files = list((draft / _ROWS).glob("*.parquet"))
    if not files:
        raise FileNotFoundError(f"{draft / _ROWS} lost its files while they were written")
    rows = sum(int(pq.read_metadata(file).num_rows) for file in files)
    about = {"transaction": batch.transaction, "rows": rows, "positions": batch.positions}
    (draft / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
    for path in (*files, draft / _ROWS, draft / _ABOUT, draft):
        _sync(path)
    return rows


def clear_drafts(place: Path) -> None:
    """Remove what updates have left that died while a batch began to wait."""
    _remove(place.glob(f"{_DRAFT}*"))


def let_go(batch: SpilledBatch) -> None:
    """Remove a batch that the sink has."""
    gone = batch.folder.with_name(f"{_GONE}{batch.folder.name}")
    batch.folder.rename(gone)
    # Else a loss of power could bring it back without its files.
    _sync(gone.parent)
    _remove(batch.folder.parent.glob(f"{_GONE}*"))


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
