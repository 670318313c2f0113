"""The sink of a flow that compares snapshots: what differs from the rows that are there becomes one commit.

A snapshot that is compared again changes nothing, so that one which a crash has interrupted is simply taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from headrace.cdc.feed import ChangeFeed, MergePath
from headrace.cdc.merge_commit import Merged
from headrace.cdc.scd_spec import END_AT, ScdSpec, ScdType
from headrace.cdc.table_lock import TableLock
from headrace.delta_log.tables import newest_version
from headrace.errors import PipelineError
from headrace.model.datasets import Flow
from headrace.model.names import quoted
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.spark.cdc.batch_cache import Kept, kept_rows
from headrace.spark.cdc.commit import Commit
from headrace.spark.cdc.difference import DELETE, INSERT, UPDATE, merge_of, rows_of
from headrace.spark.cdc.fold import comparable
from headrace.spark.cdc.key_range import bounds_of, key_range
from headrace.spark.delta.conflicts import computed_again
from headrace.spark.delta.conform import cast_nested

# What a key is that a snapshot has more than once.
_REPEATED = "repeated"
# How a key can differ: only the snapshot has it, only the table has it, or both have other rows.
_NEW, _GONE, _BEGINS, _CHANGED = "new", "gone", "begins", "changed"
_SHOWN_KEYS = 3


@dataclass
class SnapshotWriter:
    """Brings a table to where a snapshot is.

    Args:
        flow: declares what tells rows apart.
        feed: what that means for the columns of the snapshots.
        table: where the target lies.
        transaction: under which the flow's snapshots are committed.
        at: is told each point that a crash could part from the next.
        fence: returns while this update may commit.
        turn: whose turn it is to change the target.
        sets_aside: rules of the table may keep rows of a snapshot out of it.
        version: of the next snapshot.
    """

    flow: Flow
    feed: ChangeFeed
    table: str
    transaction: str
    at: Failpoints
    fence: Callable[[], None]
    turn: TableLock
    sets_aside: bool
    version: Any = None

    def events_among(self, rows: DataFrame) -> DataFrame:
        """The rows of a snapshot: all of them."""
        return rows

    def __call__(self, rows: DataFrame, batch_id: int, judged: DataFrame) -> bool:
        """Take a snapshot; False where it is the same as the table.

        Args:
            rows: of the snapshot that passed the rules, with keys.
            batch_id: the how manieth it is.
            judged: all rows of the snapshot; one that was kept out leaves the row of its key as it was.

        Raises:
            PipelineError: CDC.REPEATED_KEYS, CDC.TARGET_CHANGED; the table was not written.
        """
        with self.turn.lock:
            return computed_again(lambda: self._compare(rows, batch_id, judged), self.fence, self.flow)

    def _compare(self, rows: DataFrame, batch_id: int, judged: DataFrame) -> bool:
        with kept_rows() as kept:
            since = newest_version(self.table)
            target = rows.sparkSession.read.format("delta").load(self.table)
            changes = self._changes(kept, rows, judged, target)
            kind, repeated = changes.schema["key"].dataType, F.col("action") == _REPEATED
            counts = F.count("*").alias("changes"), F.count_if(repeated).alias("repeated")
            facts = changes.agg(*counts, *bounds_of(kind, "key")).collect()[0]
            if not facts["changes"]:
                return False
            if facts["repeated"]:
                raise self._repeated(changes.filter(repeated))
            self.at(Failpoint.TO_WRITE)
            merge = merge_of(changes, self.feed.shape, key_range(kind, facts))
            merged = Merged(MergePath.COMPARED, None, versions=False)
            Commit(merge, self.table, self.fence, (self.transaction, batch_id), merged, since).make()
            self.at(Failpoint.WRITTEN)
            return True

    def _changes(self, kept: Kept, rows: DataFrame, judged: DataFrame, target: DataFrame) -> DataFrame:
        """What differs between a snapshot and the rows that are there, as ``difference`` takes it."""
        shape = self.feed.shape
        current = _current(target, shape)
        kinds = {field.name.casefold(): field.dataType for field in target.schema.fields}
        copies = F.count("*").over(Window.partitionBy("key"))
        new = rows.select(
            _struct(rows, shape.keys, kinds).alias("key"), _struct(rows, shape.columns, kinds).alias("state")
        ).withColumn("copies", copies)
        found = new.alias("n").join(current.alias("c"), F.col("n.key") == F.col("c.key"), "full_outer")
        differs = F.when(F.col("n.copies") > 1, _REPEATED).when(F.col("c.key").isNull(), _NEW)
        differs = differs.when(F.col("n.key").isNull(), _GONE)
        differs = differs.when(_differ(shape.begins_versions, kinds), _BEGINS).when(
            _differ(shape.columns, kinds), _CHANGED
        )
        found = found.select(
            differs.alias("differs"),
            F.coalesce("n.key", "c.key").alias("key"),
            F.col("n.state").alias("state"),
            F.col("c.state").alias("before"),
            F.col("c.begun").alias("begun"),
        ).filter("differs IS NOT NULL")
        if self.sets_aside:
            there = judged.select(_struct(judged, shape.keys, kinds).alias("there"))
            still = (F.col("differs") == _GONE) & (F.col("key") == F.col("there"))
            found = found.join(there, still, "left_anti")
        return kept.settled(found.select(F.inline(self._steps(found))))

    def _steps(self, found: DataFrame) -> Column:
        """What is done to the table for a key that differs: an array of structs."""
        key, state, before, begun = (F.col(name) for name in ("key", "state", "before", "begun"))
        kind = found.schema["begun"].dataType
        never = F.lit(None).cast(kind)
        two = self.feed.shape.scd_type is ScdType.TWO
        version = F.lit(self.version).cast(kind) if two else never

        def step(action: str, row: Column, begins: Column, ends: Column) -> Column:
            parts = {"action": F.lit(action), "key": key, "state": row, "begun": begins, "ended": ends}
            return F.struct(*[part.alias(name) for name, part in parts.items()])

        differs = F.col("differs")
        ends = step(UPDATE, before, begun, version) if two else step(DELETE, before, begun, never)
        begins = step(INSERT, state, version, never)
        return (
            F.when(differs == _NEW, F.array(begins))
            .when(differs == _GONE, F.array(ends))
            .when(differs == _BEGINS, F.array(ends, begins))
            .when(differs == _CHANGED, F.array(step(UPDATE, state, begun, never)))
            .otherwise(F.array(step(_REPEATED, state, begun, never)))
        )

    def _repeated(self, rows: DataFrame) -> PipelineError:
        some = [row["key"] for row in rows.select("key").distinct().limit(_SHOWN_KEYS).collect()]
        keys = ", ".join(str(tuple(key)) if len(key) > 1 else repr(key[0]) for key in some)
        return PipelineError(
            "CDC.REPEATED_KEYS", location=self.flow.location, flow=self.flow.name, version=self.version, keys=keys
        )


def _current(target: DataFrame, shape: ScdSpec) -> DataFrame:
    """The rows of the table that say what is now."""
    if shape.scd_type is ScdType.ONE:
        return rows_of(target, shape, F.lit(None).cast("bigint").alias("begun"))
    return rows_of(target.filter(F.col(END_AT).isNull()), shape)


def _struct(rows: DataFrame, names: tuple[str, ...], kinds: Mapping[str, DataType]) -> Column:
    """Some columns, in the types of the table, which may be wider."""
    given = {field.name.casefold(): field for field in rows.schema.fields}
    found = []
    for name in names:
        own = given[name.casefold()]
        found.append(cast_nested(F.col(quoted(own.name)), own.dataType, kinds[name.casefold()]).alias(name))
    return F.struct(*found)


def _differ(names: tuple[str, ...], kinds: Mapping[str, DataType]) -> Column:
    """Whether a row of the snapshot and one of the table differ in some columns."""
    sides = (F.col("n.state"), F.col("c.state"))
    one, two = ([comparable(side.getField(name), kinds[name.casefold()]) for name in names] for side in sides)
    return reduce(Column.__or__, [~a.eqNullSafe(b) for a, b in zip(one, two, strict=True)], F.lit(False))
