"""A batch split by whether its events came in time."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.model.local_path import local_path
from headrace.patterns.given import micros, millis, timed


def split_late(batch: DataFrame, batch_id: int, at: str, within: str, folder: str) -> tuple[DataFrame, DataFrame]:
    """The events of a batch that came in time, and those that did not: in a function of ``foreachBatch``.

    An event is late that is as far as *within*, or further, behind the newest one of the batches before, or has no
    time. The newest time of each batch is noted before its rows are returned, so that a batch which comes again is
    split as it was. In a pipeline ``dp.on_time`` does this.

    Args:
        batch: as the function gets it; it is computed once for its newest time.
        batch_id: its number.
        at: the column of the events' time.
        within: how late an event may be, such as ``10 minutes``. A watermark of that delay drops none that came in
            time.
        folder: of this query alone, on a disk that the driver reaches; two small files are kept in it.

    Returns:
        Two frames with the columns of *batch*, whose rows together are its rows.

    Raises:
        PipelineError: PATTERN.*.
    """
    timed("split_late", batch, at, None)
    behind = millis("split_late", within) * 1000
    place = Path(local_path(folder))
    if "://" in folder and not folder.startswith("file:"):
        raise PipelineError("PATTERN.NO_FOLDER", folder=folder)
    time = micros(batch, at)
    before = _newest_before(place, batch_id)
    here = batch.agg(F.max(time)).collect()[0][0]
    _note(place, batch_id, max((one for one in (before, here) if one is not None), default=None))
    late = time.isNull() if before is None else time.isNull() | (time <= F.lit(before - behind))
    return batch.where(~late), batch.where(late)


def _newest_before(folder: Path, batch_id: int) -> int | None:
    """The newest time of the batches before one, in microseconds; None where none had any."""
    last = max((number for number in _numbers(folder) if number < batch_id), default=None)
    if last is None:
        return None
    found: int | None = json.loads((folder / f"{last}.json").read_text(encoding="utf-8"))["newest_micros"]
    return found


def _note(folder: Path, batch_id: int, newest: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{batch_id}.json"
    with draft.open("w", encoding="utf-8") as stream:
        json.dump({"newest_micros": newest}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(folder / f"{batch_id}.json")
    # The one before may still be asked for, by this batch when it comes again; earlier ones are not.
    for number in _numbers(folder):
        if number < batch_id - 1:
            (folder / f"{number}.json").unlink(missing_ok=True)


def _numbers(folder: Path) -> list[int]:
    return [int(file.stem) for file in folder.glob("[0-9]*.json") if file.stem.isdigit()]
