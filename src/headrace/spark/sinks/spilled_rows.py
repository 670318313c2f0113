"""Rows of batches that wait for a sink: finds and erases some of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.model.erasure import NotComparable
from headrace.model.schema import Schema
from headrace.storage.spill_queue import SpilledBatch, replace_rows
from headrace.stores.paths import StoragePath, remove_tree, sorted_paths

# An option of Spark's reader, which would interpret brackets in a path as a glob (DataSource.GLOB_PATHS_KEY).
_GLOBS = "__globPaths__"

ConditionOf = Callable[[Schema], Column]


def find_spilled_rows(session: SparkSession, batch: SpilledBatch, condition_of: ConditionOf) -> dict[StoragePath, int]:
    """The files of a batch with rows that match a condition, and their numbers; none if it lacks the columns."""
    counts = {}
    for file in sorted_paths(batch.data.glob("*.parquet")):
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
        draft = batch.folder / f".erase-{uuid4().hex}"
        try:
            others.coalesce(1).write.parquet(str(draft))
            (new,) = draft.glob("*.parquet")
            kept = sum(_rows(session, one).count() for one in batch.data.glob("*.parquet") if one != file)
            fence()
            replace_rows(batch, file, new, kept + _rows(session, new).count())
        finally:
            with suppress(OSError):
                remove_tree(draft)
    return sum(found.values())


def _rows(session: SparkSession, file: StoragePath) -> DataFrame:
    return session.read.option(_GLOBS, "false").parquet(str(file))
