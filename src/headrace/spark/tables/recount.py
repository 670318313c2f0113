"""The counts of batches that a crash left committed and not counted: what can be is computed again, nothing written."""

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
    """Of one flow into its table.

    Attributes:
        place: where it writes.
        judging: the rules of the table.
        merges: rows are not added as they are, so that what a commit changes says nothing of what it was given.
    """

    place: BatchTarget
    judging: Evaluation
    merges: bool

    def committed_as(self, batch_id: int) -> str | None:
        """The transaction that has brought a batch, ours or that of Delta's own sink; None when none has."""
        for transaction in (self.place.transaction, self.place.query_id):
            newest = committed_transaction(self.place.table, transaction) if transaction else None
            if newest is not None and newest >= batch_id:
                return transaction
        return None

    def counts(self, frame: DataFrame, batch_id: int) -> FlowCounts:
        """The counts of a batch with these rows."""
        place, judging = self.place, self.judging
        transaction = self.committed_as(batch_id) or place.transaction
        written = rows_of_transaction(place.table, transaction, batch_id)
        if judging.beyond is not None:
            return self._by_table(frame, batch_id, transaction, written)
        if not judging.rules.expectations:
            return FlowCounts(rows_written=written if written is not None else frame.count())
        counts = judging.aggregated(judging.judged(frame))
        if self.merges:
            return replace(counts, recovered=not judging.is_repeatable(frame))
        return self._as_committed(counts, written, frame, batch_id)

    def _by_table(self, frame: DataFrame, batch_id: int, transaction: str, written: int | None) -> FlowCounts:
        """The same where rules look at the table: as it was before the batch, while it can still be read."""
        place, judging = self.place, self.judging
        version = version_of_transaction(place.table, transaction, batch_id)
        if version is not None:
            # Old versions lose their files, and may lack columns that rules speak of by now.
            with suppress(PySparkException, Py4JJavaError, PipelineError):
                counts = judging.aggregated(judging.judged(frame, version - 1))
                return self._as_committed(judging.with_row_counts(counts, version), written, frame, batch_id)
        quarantined = quarantined_rows(place.quarantine, place.identity, place.epoch, batch_id)
        return FlowCounts(rows_written=written or 0, rows_quarantined=quarantined, recovered=True)

    def _as_committed(self, counts: FlowCounts, written: int | None, frame: DataFrame, batch_id: int) -> FlowCounts:
        """Counts that were computed again, with what the commits tell where that is something else."""
        place = self.place
        quarantined = quarantined_rows(place.quarantine, place.identity, place.epoch, batch_id)
        same = (written, quarantined) == (counts.rows_written, counts.rows_quarantined)
        if written is None or (same and self.judging.is_repeatable(frame)):
            return counts
        return replace(
            counts,
            rows_written=written,
            rows_quarantined=quarantined,
            rows_dropped=max(counts.rows_read - written - quarantined, 0),
            recovered=True,
        )
