"""Recounts batches that a crash left committed but not counted; writes nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.delta_log.tables import committed_transaction
from headrace.errors import PipelineError
from headrace.model.outcome import FlowCounts
from headrace.spark.delta.commit_counts import quarantined_rows, rows_of_transaction, version_of_transaction
from headrace.spark.expectations.evaluation import Evaluation
from headrace.spark.update.batch_target import BatchTarget


@dataclass(frozen=True)
class Recount:
    """Recounts the batches of one flow.

    Attributes:
        target: where the flow writes.
        evaluation: the expectations of the table.
        merges: rows are merged, not appended, so that the number of changed rows is not that of input rows.
    """

    target: BatchTarget
    evaluation: Evaluation
    merges: bool

    def transaction_of(self, batch_id: int) -> str | None:
        """The id of the transaction that committed a batch, ours or that of Delta's own sink; None if none did."""
        for transaction in (self.target.transaction, self.target.query_id):
            newest = committed_transaction(self.target.table, transaction) if transaction else None
            if newest is not None and newest >= batch_id:
                return transaction
        return None

    def counts(self, frame: DataFrame, batch_id: int) -> FlowCounts:
        """The counts of a committed batch with these rows."""
        target, evaluation = self.target, self.evaluation
        transaction = self.transaction_of(batch_id) or target.transaction
        written = rows_of_transaction(target.table, transaction, batch_id)
        if evaluation.table_rules is not None:
            return self._against_previous_version(frame, batch_id, transaction, written)
        if not evaluation.rules.expectations:
            return FlowCounts(rows_written=written if written is not None else frame.count())
        counts = evaluation.count(evaluation.evaluate(frame))
        if self.merges:
            return replace(counts, recovered=not evaluation.is_deterministic(frame))
        return self._as_committed(counts, written, frame, batch_id)

    def _against_previous_version(
        self, frame: DataFrame, batch_id: int, transaction: str, written: int | None
    ) -> FlowCounts:
        """The same with table rules: evaluated on the version before the batch, if it can still be read."""
        target, evaluation = self.target, self.evaluation
        version = version_of_transaction(target.table, transaction, batch_id)
        if version is not None:
            # Files of old versions may be vacuumed, and columns of newer rules may be absent.
            with suppress(PySparkException, Py4JJavaError, PipelineError):
                counts = evaluation.count(evaluation.evaluate(frame, version - 1))
                return self._as_committed(evaluation.with_row_counts(counts, version), written, frame, batch_id)
        quarantined = quarantined_rows(target.quarantine, target.identity, target.epoch, batch_id)
        return FlowCounts(rows_written=written or 0, rows_quarantined=quarantined, recovered=True)

    def _as_committed(self, counts: FlowCounts, written: int | None, frame: DataFrame, batch_id: int) -> FlowCounts:
        """Recomputed counts, corrected by the numbers in the commits if these differ."""
        target = self.target
        quarantined = quarantined_rows(target.quarantine, target.identity, target.epoch, batch_id)
        same = (written, quarantined) == (counts.rows_written, counts.rows_quarantined)
        if written is None or (same and self.evaluation.is_deterministic(frame)):
            return counts
        return replace(
            counts,
            rows_written=written,
            rows_quarantined=quarantined,
            rows_dropped=max(counts.rows_read - written - quarantined, 0),
            recovered=True,
        )
