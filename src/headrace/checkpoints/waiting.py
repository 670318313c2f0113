"""Batches that wait in the pipeline's storage for a sink that is down; each has a folder of Parquet files.

They are delivered in the order in which they came. A folder gets its name once it is whole, and loses it before it is
removed, so that a crash leaves batches that wait or none.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from headrace.settings.storage import path_safe

_FOLDER, _ONLY, _ABOUT, _ROWS = "waiting", "sink", "batch.json", "rows"
_DRAFT, _GONE = ".draft", ".gone"
_DIGITS = 12


@dataclass(frozen=True)
class WaitingBatch:
    """A batch that a sink has not taken.

    Attributes:
        folder: where it is.
        transaction: what the flow delivers to the sink in the batch's epoch, by its name.
        epoch: of the flow.
        number: of the batch in its epoch.
        rows: how many.
    """

    folder: Path
    transaction: str
    epoch: int
    number: int
    rows: int

    @property
    def data(self) -> Path:
        """The folder of its Parquet files."""
        return self.folder / _ROWS


def waiting_places(folder: Path, sink: str, members: Iterable[str] = ()) -> dict[str, Path]:
    """Where batches of a flow wait for each of its sinks.

    Args:
        folder: of the flow, in which its record lies.
        sink: the flow's target; that of a flow with one sink may get another name, and what waits is still its.
        members: the sinks that it stands for, if it does.
    """
    among = {member: folder / _FOLDER / path_safe(member) for member in members}
    return among or {sink: folder / _FOLDER / _ONLY}


def waiting_batches(place: Path) -> list[WaitingBatch]:
    """What waits at one of :func:`waiting_places`, in the order of delivery."""
    return [_read(found) for found in _named(place)]


def count_waiting(places: Iterable[Path]) -> int:
    """How many batches wait at places."""
    return sum(len(_named(place)) for place in places)


def keep_waiting(
    place: Path,
    batch: tuple[str, int, int],
    write: Callable[[Path], None],
    fence: Callable[[], None],
) -> int:
    """Let a batch wait behind those that do; how many rows it has, none of which is worth waiting with.

    Args:
        place: one of :func:`waiting_places`.
        batch: its transaction, epoch and number.
        write: writes the rows as Parquet files into the folder that it gets.
        fence: returns while this update may commit.
    """
    draft = place / _DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    write(draft / _ROWS)
    rows = sum(int(pq.read_metadata(file).num_rows) for file in (draft / _ROWS).glob("*.parquet"))
    transaction, epoch, number = batch
    about = {"transaction": transaction, "epoch": epoch, "number": number, "rows": rows}
    (draft / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
    for file in (*(draft / _ROWS).iterdir(), draft / _ABOUT):
        _sync(file)
    fence()
    if rows:
        newest = max((int(found.name) for found in _named(place)), default=0)
        draft.rename(place / f"{newest + 1:0{_DIGITS}}")
        _sync(place)
    else:
        shutil.rmtree(draft)
    return rows


def let_go(batch: WaitingBatch) -> None:
    """Remove a batch that the sink has."""
    gone = batch.folder.with_name(_GONE)
    shutil.rmtree(gone, ignore_errors=True)
    batch.folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _named(place: Path) -> list[Path]:
    try:
        return sorted(found for found in place.iterdir() if not found.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(folder: Path) -> WaitingBatch:
    about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    return WaitingBatch(folder, about["transaction"], about["epoch"], about["number"], about["rows"])


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
