"""Split a batch into on-time and late events."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.model.local_path import local_path
from headrace.patterns.arguments import micros, millis, with_event_time


def split_late(batch: DataFrame, batch_id: int, at: str, within: str, folder: str) -> tuple[DataFrame, DataFrame]:
    """Split a batch into its on-time and its late events, in a ``foreachBatch`` function.

    An event is late if it is at least *within* behind the newest event of the earlier batches, or has no time. The
    newest time of each batch is stored before its rows are returned, so that a repeated batch is split in the same way.
    In a pipeline, use ``dp.on_time``.

    Args:
        batch: the function's batch; it is computed once for its newest time.
        batch_id: the function's batch id.
        at: the event time column.
        within: how late an event can be, such as ``10 minutes``. A watermark of that delay drops no on-time event.
        folder: a folder for this query only, on a disk that the driver can access; it holds two small files.

    Returns:
        Two frames with the columns of *batch*; together they have its rows.

    Raises:
        PipelineError: PATTERN.*.
    """
    with_event_time("split_late", batch, at, None)
    delay_micros = millis("split_late", within) * 1000
    state_folder = Path(local_path(folder))
    if "://" in folder and not folder.startswith("file:"):
        raise PipelineError("PATTERN.NO_FOLDER", folder=folder)
    time = micros(batch, at)
    newest_before = _newest_before(state_folder, batch_id)
    newest_here = batch.agg(F.max(time)).collect()[0][0]
    _note(state_folder, batch_id, max((one for one in (newest_before, newest_here) if one is not None), default=None))
    late = time.isNull() if newest_before is None else time.isNull() | (time <= F.lit(newest_before - delay_micros))
    return batch.where(~late), batch.where(late)


def _newest_before(folder: Path, batch_id: int) -> int | None:
    """The newest time of the earlier batches, in microseconds; None if they had none."""
    last = max((number for number in _numbers(folder) if number < batch_id), default=None)
    if last is None:
        return None
    found: int | None = json.loads((folder / f"{last}.json").read_text(encoding="utf-8"))["newest_micros"]
    return found


def _note(folder: Path, batch_id: int, newest: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / f"{batch_id}.json", json.dumps({"newest_micros": newest}))
    # The previous file is needed if this batch is repeated; earlier ones are not.
    for number in _numbers(folder):
        if number < batch_id - 1:
            (folder / f"{number}.json").unlink(missing_ok=True)


def _numbers(folder: Path) -> list[int]:
    return [int(file.stem) for file in folder.glob("[0-9]*.json") if file.stem.isdigit()]
