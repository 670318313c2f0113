"""Rows of batches that wait for a sink: finds and erases some of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.model.erasure import NotComparable
from headrace.model.schema import Schema
from headrace.storage.spill_queue import SpilledBatch, replace_rows
from headrace.stores.paths import on_disk

# An option of Spark's reader, which would interpret brackets in a path as a glob (DataSource.GLOB_PATHS_KEY).
_GLOBS = "__globPaths__"

ConditionOf = Callable[[Schema], Column]


def find_spilled_rows(session: SparkSession, batch: SpilledBatch, condition_of: ConditionOf) -> dict[Path, int]:
    """The files of a batch with rows that match a condition, and their numbers; none if it lacks the columns."""
    counts = {}
    for file in sorted(_data(batch).glob("*.parquet")):
        rows = _rows(session, file)
        try:
            condition = condition_of(Schema.from_json(rows.schema.json()))
        except NotComparable:
            continue
        counts[file] = rows.filter(condition).count()
    return {file: count for file, count in counts.items() if count}


def erase_spilled_rows(
    session: SparkSession, batch: SpilledBatch, condition_of: ConditionOf, fence: Callable[[], None]
) -> int:
    """Erase rows of a batch of which the sink has no part yet; returns their number."""
    found = find_spilled_rows(session, batch, condition_of)
    for file in found:
        rows = _rows(session, file)
        others = rows.filter(~F.coalesce(condition_of(Schema.from_json(rows.schema.json())), F.lit(False)))  # noqa: FBT003 - a value
        draft = _data(batch).parent / f".erase-{uuid4().hex}"
        try:
            others.coalesce(1).write.parquet(str(draft))
            (new,) = draft.glob("*.parquet")
            kept = sum(_rows(session, one).count() for one in _data(batch).glob("*.parquet") if one != file)
            fence()
            replace_rows(batch, file, new, kept + _rows(session, new).count())
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return sum(found.values())


def _rows(session: SparkSession, file: Path) -> DataFrame:
    return session.read.option(_GLOBS, "false").parquet(str(file))


def _data(batch: SpilledBatch) -> Path:
    return on_disk(batch.data, "keeping batches until a sink is up again")
