"""The sink of a flow that compares snapshots: the differences to the current rows become one commit.

Comparing a snapshot again changes nothing, so after a crash the interrupted snapshot is simply repeated.
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
from headrace.cdc.merge_commit import MergeSummary
from headrace.cdc.scd_spec import END_AT, ScdSpec
from headrace.cdc.table_lock import TableLock
from headrace.delta_log.tables import newest_version
from headrace.errors import PipelineError
from headrace.model.datasets import Flow
from headrace.model.names import quoted
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.spark.cdc.batch_cache import BatchCache, cached_frames
from headrace.spark.cdc.commit import Commit
from headrace.spark.cdc.difference import DELETE, INSERT, UPDATE, build_merge, current_rows
from headrace.spark.cdc.fold import comparable
from headrace.spark.cdc.key_range import bounds_of, key_range
from headrace.spark.delta.conflicts import recompute_on_conflict
from headrace.spark.delta.conform import cast_nested

# A key that a snapshot contains more than once.
_REPEATED = "repeated"
# How a key can differ: only in the snapshot, only in the table, or with other values (a new version, or an update).
_NEW, _REMOVED, _BEGINS, _CHANGED = "new", "removed", "begins", "changed"
_SHOWN_KEYS = 3


@dataclass
class SnapshotWriter:
    """Makes a table equal to a snapshot.

    Args:
        flow: declares the keys.
        feed: the declaration, applied to the columns of the snapshots.
        table: path of the target.
        transaction: id of the transactions that commit the flow's snapshots.
        failpoint: called between writes that a crash could separate.
        fence: raises once another process holds the lease.
        table_lock: shared by all flows into the target.
        rejects_rows: expectations of the table may drop or quarantine rows of a snapshot.
        version: version of the next snapshot.
    """

    flow: Flow
    feed: ChangeFeed
    table: str
    transaction: str
    failpoint: Failpoints
    fence: Callable[[], None]
    table_lock: TableLock
    rejects_rows: bool
    version: Any = None

    def select_events(self, rows: DataFrame) -> DataFrame:
        """All rows of the snapshot."""
        return rows

    def __call__(self, rows: DataFrame, batch_id: int, evaluated: DataFrame) -> bool:
        """Process a snapshot; False if it equals the table.

        Args:
            rows: rows of the snapshot that passed the expectations, with keys.
            batch_id: number of the snapshot.
            evaluated: all rows of the snapshot; a rejected row leaves the current row of its key unchanged.

        Raises:
            PipelineError: CDC.REPEATED_KEYS, CDC.TARGET_CHANGED; the table was not written.
        """
        with self.table_lock.lock:
            return recompute_on_conflict(lambda: self._compare(rows, batch_id, evaluated), self.fence, self.flow)

    def _compare(self, rows: DataFrame, batch_id: int, evaluated: DataFrame) -> bool:
        with cached_frames() as cache:
            read_version = newest_version(self.table)
            target = rows.sparkSession.read.format("delta").load(self.table)
            changes = self._changes(cache, rows, evaluated, target)
            kind, repeated = changes.schema["key"].dataType, F.col("action") == _REPEATED
            counts = F.count("*").alias("changes"), F.count_if(repeated).alias("repeated")
            facts = changes.agg(*counts, *bounds_of(kind, "key")).collect()[0]
            if not facts["changes"]:
                return False
            if facts["repeated"]:
                raise self._repeated(changes.filter(repeated))
            self.failpoint(Failpoint.BEFORE_WRITE)
            merge = build_merge(changes, self.feed.spec, key_range(kind, facts))
            summary = MergeSummary(MergePath.COMPARED_SNAPSHOT, None, versions=False)
            Commit(merge, self.table, self.fence, (self.transaction, batch_id), summary, read_version).execute()
            self.failpoint(Failpoint.WRITTEN)
            return True

    def _changes(self, cache: BatchCache, rows: DataFrame, evaluated: DataFrame, target: DataFrame) -> DataFrame:
        """The differences between a snapshot and the current rows, as ``difference`` returns them."""
        spec = self.feed.spec
        current = _current(target, spec)
        kinds = {field.name.casefold(): field.dataType for field in target.schema.fields}
        copies = F.count("*").over(Window.partitionBy("key"))
        new = rows.select(
            _struct(rows, spec.keys, kinds).alias("key"), _struct(rows, spec.columns, kinds).alias("state")
        ).withColumn("copies", copies)
        found = new.alias("n").join(current.alias("c"), F.col("n.key") == F.col("c.key"), "full_outer")
        differs = F.when(F.col("n.copies") > 1, _REPEATED).when(F.col("c.key").isNull(), _NEW)
        differs = differs.when(F.col("n.key").isNull(), _REMOVED)
        differs = differs.when(_differ(spec.versioning_columns, kinds), _BEGINS).when(
            _differ(spec.columns, kinds), _CHANGED
        )
        found = found.select(
            differs.alias("differs"),
            F.coalesce("n.key", "c.key").alias("key"),
            F.col("n.state").alias("state"),
            F.col("c.state").alias("before"),
            F.col("c.valid_from").alias("valid_from"),
        ).filter("differs IS NOT NULL")
        if self.rejects_rows:
            present = evaluated.select(_struct(evaluated, spec.keys, kinds).alias("present"))
            was_rejected = (F.col("differs") == _REMOVED) & (F.col("key") == F.col("present"))
            found = found.join(present, was_rejected, "left_anti")
        return cache.eager(found.select(F.inline(self._steps(found))))

    def _steps(self, found: DataFrame) -> Column:
        """The actions on the table for a key that differs: an array of structs."""
        key, state, before, valid_from = (F.col(name) for name in ("key", "state", "before", "valid_from"))
        kind = found.schema["valid_from"].dataType
        never = F.lit(None).cast(kind)
        two = self.feed.spec.keeps_versions
        version = F.lit(self.version).cast(kind) if two else never

        def step(action: str, row: Column, begins: Column, ends: Column) -> Column:
            parts = {"action": F.lit(action), "key": key, "state": row, "valid_from": begins, "valid_to": ends}
            return F.struct(*[part.alias(name) for name, part in parts.items()])

        differs = F.col("differs")
        ends = step(UPDATE, before, valid_from, version) if two else step(DELETE, before, valid_from, never)
        begins = step(INSERT, state, version, never)
        return (
            F.when(differs == _NEW, F.array(begins))
            .when(differs == _REMOVED, F.array(ends))
            .when(differs == _BEGINS, F.array(ends, begins))
            .when(differs == _CHANGED, F.array(step(UPDATE, state, valid_from, never)))
            .otherwise(F.array(step(_REPEATED, state, valid_from, never)))
        )

    def _repeated(self, rows: DataFrame) -> PipelineError:
        some = [row["key"] for row in rows.select("key").distinct().limit(_SHOWN_KEYS).collect()]
        keys = ", ".join(str(tuple(key)) if len(key) > 1 else repr(key[0]) for key in some)
        return PipelineError(
            "CDC.REPEATED_KEYS", location=self.flow.location, flow=self.flow.name, version=self.version, keys=keys
        )


def _current(target: DataFrame, spec: ScdSpec) -> DataFrame:
    """The current rows of the table: all for SCD type 1, open versions for type 2."""
    if not spec.keeps_versions:
        return current_rows(target, spec, F.lit(None).cast("bigint").alias("valid_from"))
    return current_rows(target.filter(F.col(END_AT).isNull()), spec)


def _struct(rows: DataFrame, names: tuple[str, ...], kinds: Mapping[str, DataType]) -> Column:
    """A struct of some columns, cast to the types of the table, which may be wider."""
    given = {field.name.casefold(): field for field in rows.schema.fields}
    found = []
    for name in names:
        own = given[name.casefold()]
        found.append(cast_nested(F.col(quoted(own.name)), own.dataType, kinds[name.casefold()]).alias(name))
    return F.struct(*found)


def _differ(names: tuple[str, ...], kinds: Mapping[str, DataType]) -> Column:
    """True if a row of the snapshot and one of the table differ in any of the columns."""
    sides = (F.col("n.state"), F.col("c.state"))
    one, two = ([comparable(side.getField(name), kinds[name.casefold()]) for name in names] for side in sides)
    return reduce(Column.__or__, [~a.eqNullSafe(b) for a, b in zip(one, two, strict=True)], F.lit(False))
