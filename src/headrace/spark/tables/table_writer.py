"""Writes the batches of a flow into its target exactly once, with expectations applied and counted.

The commit point is the target's commit, which carries (flow, epoch, batch) as its transaction id. Quarantine rows are
written before it and replace those of an earlier attempt of the same batch. So after any crash, the rows written,
quarantined and dropped together are the rows that the flow's function returned.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Protocol

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from headrace.events.types import BatchDone
from headrace.expectations.split import accepted_rows, counts_from
from headrace.model.custom_metrics import CustomMetric, MetricValue
from headrace.model.expectations import Action
from headrace.model.outcome import FlowCounts
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.runtime.ports import Emit
from headrace.spark.delta.commit_counts import (
    actions_of_transaction,
    merged_rows,
    quarantined_rows,
    recent_commit,
    rows_of_transaction,
)
from headrace.spark.delta.rescued_rows import count_non_null
from headrace.spark.delta.small_append import refresh_caches
from headrace.spark.expectations.evaluation import Evaluation
from headrace.spark.expectations.quarantine_writer import QuarantineWriter
from headrace.spark.expectations.samples import SampleWriter
from headrace.spark.tables.observed_rows import computed_once, was_computed
from headrace.spark.tables.recount import Recount
from headrace.spark.tables.row_metrics import RowMetrics
from headrace.spark.tables.row_writer import RowWriter
from headrace.spark.tables.small_batches import SmallBatches
from headrace.spark.update.batch_target import BatchTarget


class RowMerger(Protocol):
    """Merges the rows of a batch into the target, instead of appending them."""

    def select_events(self, rows: DataFrame) -> DataFrame:
        """The rows that are counted, evaluated and merged."""

    def __call__(self, rows: DataFrame, batch_id: int, evaluated: DataFrame) -> bool:
        """Commit the rows that passed, as the batch's transaction; *evaluated* are all rows.

        False if there was nothing to commit.
        """


class TableWriter:
    """The sink of one flow in one update; its batches come one at a time.

    Args:
        target: where to write.
        evaluation: the expectations of the dataset.
        emit: receives a BatchDone for each batch, durable before :meth:`write` returns.
        known_counts: returns the counts of a batch from the event log, or None.
        failpoint: called between writes that a crash could separate.
        fence: raises once another process holds the lease.
        merge: merges the rows of a batch that passed; None if they are appended.
        small_batches: tells which batches may be small; None if rows are merged.
        table_lock: held from reading the table to the commit, if flows into the table need it.
        samples: how many rows to sample per expectation that warns or drops.
        metrics: of the written rows.
    """

    def __init__(
        self,
        target: BatchTarget,
        evaluation: Evaluation,
        emit: Emit,
        known_counts: Callable[[str, int, int], FlowCounts | None],
        failpoint: Failpoints,
        fence: Callable[[], None],
        merge: RowMerger | None = None,
        small_batches: SmallBatches | None = None,
        table_lock: AbstractContextManager[object] | None = None,
        samples: int = 0,
        metrics: tuple[CustomMetric, ...] = (),
    ) -> None:
        self._target = target
        self._evaluation = evaluation
        self._sampler = SampleWriter(target, evaluation.rules, emit, samples)
        self._table_lock = nullcontext() if table_lock is None else table_lock
        self._emit = emit
        self._known_counts = known_counts
        self._failpoint = failpoint
        self._fence = fence
        self._merge = merge
        self._small_batches = small_batches
        self._metrics = RowMetrics(metrics, replaces=target.replaces)
        self._recount = Recount(target, evaluation, merge is not None)
        self._write_rows = RowWriter(target, failpoint, fence)
        self._quarantine_writer = QuarantineWriter(target, evaluation.rules, failpoint, fence)
        # True if an earlier attempt may have written the next batch.
        self._may_repeat = True
        # True if the newest batch made a commit of the table.
        self._committed = True
        self.batches = 0
        # Rows that the flow's function returned, in all batches.
        self.rows = 0

    def write(self, frame: DataFrame, batch_id: int, *, dead_letters: int = 0) -> None:
        """Write a batch, unless its transaction is in the target already; count it in either case.

        *dead_letters* is the number of its rows that were written as dead letters before.
        """
        with self._table_lock:
            self._write(frame, batch_id, dead_letters)

    def _write(self, frame: DataFrame, batch_id: int, dead_letters: int) -> None:
        started = time.monotonic()
        # A batch that fails may be repeated.
        may_repeat, self._may_repeat, self._committed = self._may_repeat, True, True
        if self._merge is not None:
            frame = self._merge.select_events(frame)
        if may_repeat and self._recount.transaction_of(batch_id) is not None:
            with computed_once(frame, self._target.stateful) as rows:
                counts = self._known_counts(self._target.flow, self._target.epoch, batch_id)
                if counts is not None:
                    self._may_repeat = False
                    return
                counts = self._recount.counts(rows, batch_id)
        elif self._evaluation.evaluates_whole_batches or self._may_be_small(frame, batch_id):
            counts = self._write_cached(frame, batch_id, may_repeat=may_repeat)
        elif self._evaluation.rules.expectations:
            counts = self._write_evaluated(frame, batch_id)
        else:
            self._commit(frame, batch_id, frame)
            written = rows_of_transaction(self._target.table, self._target.transaction, batch_id)
            counts = self._evaluation.with_row_counts(FlowCounts(rows_written=written or 0))
        if self._target.rescued_column is not None:
            column = self._target.rescued_column
            transaction = self._recount.transaction_of(batch_id) or self._target.transaction
            actions = actions_of_transaction(self._target.table, transaction, batch_id)
            counts = replace(counts, rows_rescued=None if actions is None else count_non_null(column, actions))
        metrics = self._metrics_of(batch_id, frame.sparkSession)
        counts = replace(counts, rows_quarantined=counts.rows_quarantined + dead_letters, metrics=metrics)
        self._report(batch_id, counts, duration_ms=int((time.monotonic() - started) * 1000))
        self._may_repeat = False
        self.batches += 1
        self.rows += counts.rows_read
        self._failpoint(Failpoint.COUNTED)

    def count_if_written(self, batch_id: int, dead_letters: int) -> bool:
        """Count a batch from its commits, without its rows; False if it is not in the table.

        *dead_letters* is the number of its rows that were written as dead letters.
        """
        target, transaction = self._target, self._recount.transaction_of(batch_id)
        if transaction is None:
            return False
        self._may_repeat = False
        if self._known_counts(target.flow, target.epoch, batch_id) is not None:
            return True
        counts = FlowCounts(
            rows_written=rows_of_transaction(target.table, transaction, batch_id) or 0,
            rows_quarantined=dead_letters
            + quarantined_rows(target.quarantine, target.identity, target.epoch, batch_id),
            recovered=True,
            metrics=self._metrics_of(batch_id, SparkSession.active()),
        )
        self._report(batch_id, counts)
        self.batches += 1
        self._failpoint(Failpoint.COUNTED)
        return True

    def count_committed(self, batch_id: int) -> None:
        """Count a batch that is in the table and whose rows cannot be read again, from its commit."""
        target = self._target
        if self._known_counts(target.flow, target.epoch, batch_id) is None:
            metrics = self._metrics_of(batch_id, SparkSession.active())
            self._report(batch_id, FlowCounts(recovered=True, metrics=metrics))

    def _may_be_small(self, frame: DataFrame, batch_id: int) -> bool:
        return self._small_batches is not None and self._small_batches.may_have(frame, batch_id)

    def _write_evaluated(self, frame: DataFrame, batch_id: int) -> FlowCounts:
        observation = Observation()
        evaluated = self._evaluation.evaluate(frame)
        rows = evaluated.observe(observation, *self._evaluation.counters)
        self._commit(accepted_rows(rows, self._evaluation.rules), batch_id, rows)
        if not was_computed(observation, frame.sparkSession):
            # Delta skipped the write: another process has committed this very batch meanwhile.
            return self._recount.counts(frame, batch_id)
        counts = counts_from(observation.get, self._evaluation.rules)
        self._sampler.sample(evaluated, batch_id, counts)
        return self._evaluation.with_row_counts(counts)

    def _write_cached(self, frame: DataFrame, batch_id: int, *, may_repeat: bool) -> FlowCounts:
        # Spark shares the cache of equal queries, and would report an error of one flow as that of another.
        own = F.lit(str(uuid.uuid4()))
        rows = self._evaluation.evaluate(frame).filter(own.isNotNull()).persist(StorageLevel.MEMORY_AND_DISK)
        quarantines = bool(self._evaluation.rules.with_action(Action.QUARANTINE))
        try:
            counts = self._evaluation.count(rows)
            if self._evaluation.table_rules is not None:
                self._evaluation.table_rules.check_rows(counts, self._target.flow, self._target.dataset)
            # Another attempt at this batch may have quarantined rows, or may still try to and must be prevented.
            is_retry = may_repeat and self._target.repeats
            if quarantines and (counts.rows_quarantined or self._target.replaces or is_retry):
                self._quarantine_writer(rows, batch_id, counts.rows_quarantined, is_retry=is_retry)
            self._commit(accepted_rows(rows, self._evaluation.rules), batch_id, rows, counts.rows_written)
            self._sampler.sample(rows, batch_id, counts)
        finally:
            rows.unpersist()
        if self._merge is None:
            refresh_caches(frame.sparkSession, self._target.table)
        return self._evaluation.with_row_counts(counts)

    def _commit(self, rows: DataFrame, batch_id: int, evaluated: DataFrame, row_count: int | None = None) -> None:
        """Commit the rows that passed; *row_count* is their number if they are cached."""
        if self._merge is not None:
            self._committed = self._merge(rows, batch_id, evaluated)
        else:
            self._write_rows(self._metrics.observe(rows), batch_id, row_count)

    def _metrics_of(self, batch_id: int, session: SparkSession) -> tuple[MetricValue, ...]:
        # To find the transaction, the table's log is read.
        if not self._metrics:
            return ()
        transaction = self._recount.transaction_of(batch_id) or self._target.transaction
        return self._metrics.values(self._target.table, transaction, batch_id, session)

    def _report(self, batch_id: int, counts: FlowCounts, duration_ms: int | None = None) -> None:
        """Report that a batch is done, with the merge metrics of its commit."""
        target, path, written = self._target, None, None
        counts = replace(counts, refresh=target.refresh)
        merges = self._merge is not None and self._committed
        found = merged_rows(target.table, target.transaction, batch_id) if merges else None
        if found is not None:
            path, written = found.path, found.written
            counts = replace(counts, rows_upserted=found.upserted, rows_deleted=found.deleted, changes=found.changes)
        # In version 0.1, Delta's own sink may have committed it.
        transactions = (target.transaction, target.query_id or target.transaction)
        commit = recent_commit(target.table, transactions, batch_id) if self._committed else None
        self._emit(
            BatchDone(target.flow, target.dataset, target.epoch, batch_id, counts, duration_ms, path, written, commit)
        )
