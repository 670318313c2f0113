"""Writes one batch of a flow into its target, exactly once, with its expectations applied and counted.

The commit point is the target's commit, which carries (flow, epoch, batch) as its transaction id. Quarantine rows are
written before it, replacing those of an earlier attempt of the same batch, so that whatever crashes: rows written,
quarantined and dropped are together the rows that the flow's function returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from headrace.checkpoints.delta_log import committed_transaction, table_state
from headrace.events.types import BatchDone
from headrace.expectations.apply import counters, counts_from, kept, set_aside
from headrace.expectations.compile import Rules, masks, predicate_column, tallies
from headrace.model.expectations import Action
from headrace.model.names import quoted, sql_text
from headrace.model.outcome import FlowCounts
from headrace.model.schema import Schema
from headrace.runtime.ports import Emit
from headrace.runtime.seam import Point, Seam
from headrace.spark.commits import actions_of_transaction, merged_rows, quarantined_rows, rows_of_transaction
from headrace.spark.rescued import rows_with
from headrace.spark.term_guard import of_term

_CONFLICT_TRIES = 5
# Batch, term and attempt together are a transaction's version, a number of 63 bits.
_TERM_BITS, _ATTEMPT_BITS = 24, 12
_MAX_TERM, _MAX_ATTEMPT = (1 << _TERM_BITS) - 1, (1 << _ATTEMPT_BITS) - 1
# Observations are complete when the write returns; this is for a listener that lags.
_OBSERVATION_PATIENCE_S = 5.0
_SOURCE_TYPE = "struct<file:string,topic:string,partition:int,offset:bigint,version:bigint>"


@dataclass(frozen=True)
class TargetPlace:
    """Where the batches of a flow go, and under which identity.

    ``identity`` is the name that the flow's rows in quarantine carry, which a rename does not change. ``term`` counts
    the holders of the lease, and ``attempt`` the tries of the flow by this one.
    """

    flow: str
    dataset: str
    table: str
    quarantine: str
    transaction: str
    epoch: int
    identity: str
    update_id: str
    term: int
    attempt: int
    # Spark's id of the query, under which Delta's own sink commits, if there is one.
    query_id: str = ""
    stateful: bool = False
    replaces: bool = False
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    # In which Auto Loader has put what has no place, if a column is such.
    rescued_column: str | None = None


class Target:
    """The sink of one flow in one update; its batches come one at a time.

    Args:
        place: where to write.
        rules: the expectations of the dataset.
        emit: gets a BatchDone for each batch, durable before :meth:`write` returns.
        known_counts: the counts of a batch that are in the event log already, or None.
        at: is told each point that a crash could part from the next.
        fence: returns while this update may commit, raises once another has taken over.
        merge: commits the rows of a batch that passed, as its transaction, where they are not added as they are.
    """

    def __init__(
        self,
        place: TargetPlace,
        rules: Rules,
        emit: Emit,
        known_counts: Callable[[str, int, int], FlowCounts | None],
        at: Seam,
        fence: Callable[[], None],
        merge: Callable[[DataFrame, int], None] | None = None,
    ) -> None:
        self._place = place
        self._rules = rules
        self._emit = emit
        self._known_counts = known_counts
        self._at = at
        self._fence = fence
        self._merges = merge is not None
        self._commit = merge or self._add
        self._fresh = True
        self._masks: list[Column] = []
        self._tallies: list[Column] = []
        self._counters: list[Column] = []
        self.error: BaseException | None = None
        self.batches = 0

    def batch(self, frame: DataFrame, batch_id: int) -> None:
        """What foreachBatch calls; an error is kept, because py4j loses it on the way out."""
        try:
            self.write(frame, batch_id)
        except BaseException as error:
            self.error = error
            raise

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch, unless its transaction is in the target already; count it in either case."""
        began = time.monotonic()
        fresh, self._fresh = self._fresh, False
        if fresh and self._committed_as(batch_id) is not None:
            with _once(frame, self._place.stateful) as rows:
                counts = self._known_counts(self._place.flow, self._place.epoch, batch_id)
                if counts is not None:
                    return
                counts = self._recounted(rows, batch_id)
        elif self._rules.with_action(Action.QUARANTINE):
            counts = self._write_with_quarantine(frame, batch_id, fresh=fresh)
        elif self._rules.expectations:
            counts = self._write_judged(frame, batch_id)
        else:
            self._commit(frame, batch_id)
            written = rows_of_transaction(self._place.table, self._place.transaction, batch_id)
            counts = FlowCounts(rows_written=written or 0)
        if self._place.rescued_column is not None:
            column, transaction = self._place.rescued_column, self._committed_as(batch_id) or self._place.transaction
            actions = actions_of_transaction(self._place.table, transaction, batch_id)
            counts = replace(counts, rows_rescued=None if actions is None else rows_with(column, actions))
        merged = merged_rows(self._place.table, self._place.transaction, batch_id) if self._merges else None
        if merged is not None:
            upserted, deleted = merged
            counts = replace(counts, rows_upserted=upserted, rows_deleted=deleted)
        self._emit(
            BatchDone(
                flow=self._place.flow,
                dataset=self._place.dataset,
                epoch=self._place.epoch,
                batch_id=batch_id,
                counts=counts,
                duration_ms=int((time.monotonic() - began) * 1000),
            )
        )
        self.batches += 1
        self._at(Point.COUNTED)

    def _write_judged(self, frame: DataFrame, batch_id: int) -> FlowCounts:
        observation = Observation()
        rows = self._judged(frame).observe(observation, *self._counters)
        self._commit(kept(rows, self._rules), batch_id)
        if not _completed(observation):
            # Delta skipped the write: another process has committed this very batch meanwhile.
            return self._recounted(frame, batch_id)
        return counts_from(observation.get, self._rules)

    def _write_with_quarantine(self, frame: DataFrame, batch_id: int, *, fresh: bool) -> FlowCounts:
        rows = self._judged(frame).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = self._aggregated(rows)
            # An attempt before a crash may have left rows of this batch; only the first batch can be a repeated one.
            if counts.rows_quarantined or fresh or self._place.replaces:
                self._quarantine(rows, batch_id, fresh=fresh)
                self._at(Point.QUARANTINED)
            self._commit(kept(rows, self._rules), batch_id)
        finally:
            rows.unpersist()
        return counts

    def _add(self, rows: DataFrame, batch_id: int) -> None:
        writer = rows.write.format("delta").mode("overwrite" if self._place.replaces else "append")
        writer = writer.option("txnAppId", self._place.transaction).option("txnVersion", str(batch_id))
        clusters_anew = False
        if self._place.replaces and self._place.cluster_by and self._fits(rows):
            # A condition that all rows meet: Delta replaces the rows and keeps the clustering.
            writer = writer.option("replaceWhere", "true")
        elif self._place.replaces:
            clusters_anew = bool(self._place.cluster_by)
            writer = writer.option("overwriteSchema", "true")
            if self._place.partition_by:
                writer = writer.partitionBy(*self._place.partition_by)
        self._at(Point.TO_WRITE)
        self._fence()
        writer.save(self._place.table)
        if clusters_anew:
            # Delta forgets the clustering with the old schema.
            columns = ", ".join(quoted(*column.split(".")) for column in self._place.cluster_by)
            rows.sparkSession.sql(f"ALTER TABLE delta.{quoted(self._place.table)} CLUSTER BY ({columns})")
        self._at(Point.WRITTEN)

    def _fits(self, rows: DataFrame) -> bool:
        """True when the rows have the columns that the table has, and it is not partitioned."""
        state = table_state(self._place.table)
        if state is None or state.partition_by:
            return False
        return state.schema.nullable == Schema.from_json(rows.schema.json()).nullable

    def _quarantine(self, rows: DataFrame, batch_id: int, *, fresh: bool) -> None:
        place = self._place
        broken = set_aside(rows, self._rules).select(
            "row",
            "broken",
            F.lit(None).cast(_SOURCE_TYPE).alias("source"),
            F.lit(place.update_id).alias("update_id"),
            F.lit(place.identity).alias("flow"),
            F.lit(place.epoch).alias("epoch"),
            F.lit(batch_id).cast("bigint").alias("batch_id"),
            F.current_timestamp().alias("quarantined_at"),
            F.lit("open").alias("status"),
        )
        writer = broken.write.format("delta").mode("overwrite" if fresh or place.replaces else "append")
        writer = writer.partitionBy("flow")
        if place.replaces:
            # The only flow of its table: all rows are its own, and may be of other types than before.
            writer = writer.option("overwriteSchema", "true")
        else:
            version = transaction_version(batch_id, place.term, place.attempt)
            writer = writer.option("txnAppId", f"{place.transaction} quarantine").option("txnVersion", str(version))
            writer = writer.option("mergeSchema", "true")
        if fresh and not place.replaces:
            # Looked for in the files of the flow, and so only where an attempt before may have left something.
            mine = f"flow = {sql_text(place.identity)} AND epoch = {place.epoch} AND batch_id = {batch_id}"
            writer = writer.option("replaceWhere", mine)
        self._at(Point.TO_SET_ASIDE)
        self._fence()
        for attempt in range(1, _CONFLICT_TRIES + 1):
            try:
                writer.save(place.quarantine)
            except PySparkException as error:
                # Flows of one dataset share its quarantine table; their rows lie in partitions of their own.
                conflict = (error.getCondition() or "").startswith("DELTA_CONCURRENT")
                if not conflict or attempt == _CONFLICT_TRIES:
                    raise
            else:
                return

    def _judged(self, frame: DataFrame) -> DataFrame:
        """The rows with their masks; expressions are made for the first batch, and are the same for all."""
        if not self._masks:
            self._masks = masks(self._rules, frame.columns, frame.sparkSession)
            self._tallies = tallies(self._rules)
            self._counters = counters(self._rules)
        return frame.select("*", *self._masks).select("*", *self._tallies)

    def _aggregated(self, rows: DataFrame) -> FlowCounts:
        """The counts of judged rows, by one aggregate."""
        return counts_from(rows.agg(*self._counters).collect()[0].asDict(), self._rules)

    def _committed_as(self, batch_id: int) -> str | None:
        """The transaction that has brought a batch, ours or that of Delta's own sink; None when none has."""
        for transaction in (self._place.transaction, self._place.query_id):
            newest = committed_transaction(self._place.table, transaction) if transaction else None
            if newest is not None and newest >= batch_id:
                return transaction
        return None

    def _recounted(self, frame: DataFrame, batch_id: int) -> FlowCounts:
        """The counts of a batch that a crash left committed but not counted: one aggregate, nothing written."""
        place, rules = self._place, self._rules
        transaction = self._committed_as(batch_id) or place.transaction
        written = rows_of_transaction(place.table, transaction, batch_id)
        if not rules.expectations:
            return FlowCounts(rows_written=written if written is not None else frame.count())
        counts = self._aggregated(self._judged(frame))
        if self._merges:
            # What a merge changes says nothing of the events that it was given.
            return replace(counts, recovered=not _repeatable(frame, rules))
        quarantined = quarantined_rows(place.quarantine, place.identity, place.epoch, batch_id)
        same = (written, quarantined) == (counts.rows_written, counts.rows_quarantined)
        if written is None or (same and _repeatable(frame, rules)):
            return counts
        total = counts.rows_written + counts.rows_dropped + counts.rows_quarantined
        return replace(
            counts,
            rows_written=written,
            rows_quarantined=quarantined,
            rows_dropped=max(total - written - quarantined, 0),
            recovered=True,
        )


def make_quarantine(session: SparkSession, path: str, empty: DataFrame, term: int | None) -> None:
    """An empty quarantine table for rows like those of *empty*; what was there is gone.

    Nothing is done once a holder of the lease with a number above *term* has done it.
    """
    columns = (
        f"broken array<string>, source {_SOURCE_TYPE}, update_id string, flow string, epoch int, batch_id bigint, "
        "quarantined_at timestamp, status string"
    )
    frame = session.createDataFrame([], columns).crossJoin(empty.select(F.struct("*").alias("row")))
    frame = frame.select("row", *[name for name in frame.columns if name != "row"])
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.options(**of_term(term, "clearing")).partitionBy("flow").save(path)


def transaction_version(batch_id: int, term: int, attempt: int) -> int:
    """Under which a try of a batch is committed: a later batch, holder or try has a higher number than an earlier one.

    Delta passes over a commit whose number is not above the last one of its writer, so that a holder of the lease which
    was stopped and goes on cannot write a batch that the one after it has written.
    """
    return (batch_id << _TERM_BITS | min(term, _MAX_TERM)) << _ATTEMPT_BITS | min(attempt, _MAX_ATTEMPT)


@contextmanager
def _once(frame: DataFrame, stateful: bool) -> Iterator[DataFrame]:  # noqa: FBT001 - a property of the frame
    """The rows of a batch that is in the table already; with state, they are computed all the same, and once.

    Spark takes the versions of its state from the work that computes a batch, and ends the query for good when a batch
    was not computed (``StatefulOperatorsUtils``, state checkpoints of format 2).
    """
    if not stateful:
        yield frame
        return
    rows = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows.write.format("noop").mode("overwrite").save()
        yield rows
    finally:
        rows.unpersist()


def _completed(observation: Observation) -> bool:
    """True once the observed write has run; waiting for one that was skipped would never end."""
    java: Any = observation._jo  # noqa: SLF001 - its future has no public form
    deadline = time.monotonic() + _OBSERVATION_PATIENCE_S
    while java is not None and not java.future().isCompleted():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return java is not None


def _repeatable(frame: DataFrame, rules: Rules) -> bool:
    """False when a rule may judge the same row differently the next time."""
    tested = frame.select(*[predicate_column(e).alias(f"r{n}") for n, e in enumerate(rules.expectations)])
    return bool(tested._jdf.queryExecution().analyzed().deterministic())  # noqa: SLF001 - plans have no public form
