"""Writes one batch of a flow into its target, exactly once, with its expectations applied and counted.

The commit point is the target's commit, which carries (flow, epoch, batch) as its transaction id. Quarantine rows are
written before it, replacing those of an earlier attempt of the same batch, so that whatever crashes: rows written,
quarantined and dropped are together the rows that the flow's function returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Protocol

from pyspark.sql import DataFrame, Observation
from pyspark.storagelevel import StorageLevel

from headrace.delta_log.tables import table_state
from headrace.events.types import BatchDone
from headrace.expectations.split import counts_from, kept
from headrace.model.expectations import Action
from headrace.model.names import quoted
from headrace.model.outcome import FlowCounts
from headrace.model.schema import Schema
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.runtime.ports import Emit
from headrace.spark.delta.commit_counts import (
    actions_of_transaction,
    merged_rows,
    quarantined_rows,
    rows_of_transaction,
)
from headrace.spark.delta.not_null_columns import with_values
from headrace.spark.delta.rescued_rows import rows_with
from headrace.spark.expectations.evaluation import Evaluation
from headrace.spark.expectations.quarantine_writer import QuarantineWriter
from headrace.spark.expectations.samples import SampleWriter
from headrace.spark.tables.observed_rows import completed, computed_once
from headrace.spark.tables.recount import Recount
from headrace.spark.update.batch_target import BatchTarget


class Merges(Protocol):
    """What is done with the rows of a batch that are not added as they are."""

    def events_among(self, rows: DataFrame) -> DataFrame:
        """The rows that are counted, judged and merged."""

    def __call__(self, rows: DataFrame, batch_id: int, judged: DataFrame) -> bool:
        """Commit the rows that passed, as the batch's transaction; *judged* are all rows.

        False where there was nothing to commit.
        """


class TableWriter:
    """The sink of one flow in one update; its batches come one at a time.

    Args:
        place: where to write.
        judging: the expectations of the dataset.
        emit: gets a BatchDone for each batch, durable before :meth:`write` returns.
        known_counts: the counts of a batch that are in the event log already, or None.
        at: is told each point that a crash could part from the next.
        fence: returns while this update may commit, raises once another has taken over.
        merge: commits the rows of a batch that passed, where they are not added as they are.
        turn: is held from the look at the table to its commit, where flows into the table take turns.
        samples: how many rows are kept to be looked at, of each rule that counts or drops rows.
    """

    def __init__(
        self,
        place: BatchTarget,
        judging: Evaluation,
        emit: Emit,
        known_counts: Callable[[str, int, int], FlowCounts | None],
        at: Failpoints,
        fence: Callable[[], None],
        merge: Merges | None = None,
        turn: AbstractContextManager[object] | None = None,
        samples: int = 0,
    ) -> None:
        self._place = place
        self._judging = judging
        self._sampling = SampleWriter(place, judging.rules, emit, samples)
        self._turn = nullcontext() if turn is None else turn
        self._emit = emit
        self._known_counts = known_counts
        self._at = at
        self._fence = fence
        self._merge = merge
        self._recounting = Recount(place, judging, merge is not None)
        self._quarantining = QuarantineWriter(place, judging.rules, at, fence)
        self._fresh = True
        # Whether the newest batch is a commit of the table.
        self._committed = True
        self.batches = 0
        # How many rows of the function came, in all batches.
        self.rows = 0

    def write(self, frame: DataFrame, batch_id: int, *, aside: int = 0) -> None:
        """Write a batch, unless its transaction is in the target already; count it in either case.

        *aside* of its rows were set aside before they came here.
        """
        with self._turn:
            self._write(frame, batch_id, aside)

    def _write(self, frame: DataFrame, batch_id: int, aside: int) -> None:
        began = time.monotonic()
        # A batch that fails may come again.
        fresh, self._fresh, self._committed = self._fresh, True, True
        if self._merge is not None:
            frame = self._merge.events_among(frame)
        if fresh and self._recounting.committed_as(batch_id) is not None:
            with computed_once(frame, self._place.stateful) as rows:
                counts = self._known_counts(self._place.flow, self._place.epoch, batch_id)
                if counts is not None:
                    self._fresh = False
                    return
                counts = self._recounting.counts(rows, batch_id)
        elif self._judging.before_writing:
            counts = self._write_with_quarantine(frame, batch_id, fresh=fresh)
        elif self._judging.rules.expectations:
            counts = self._write_judged(frame, batch_id)
        else:
            self._commit(frame, batch_id, frame)
            written = rows_of_transaction(self._place.table, self._place.transaction, batch_id)
            counts = self._judging.with_row_counts(FlowCounts(rows_written=written or 0))
        if self._place.rescued_column is not None:
            column = self._place.rescued_column
            transaction = self._recounting.committed_as(batch_id) or self._place.transaction
            actions = actions_of_transaction(self._place.table, transaction, batch_id)
            counts = replace(counts, rows_rescued=None if actions is None else rows_with(column, actions))
        counts = replace(counts, rows_quarantined=counts.rows_quarantined + aside)
        self._tell(batch_id, counts, duration_ms=int((time.monotonic() - began) * 1000))
        self._fresh = False
        self.batches += 1
        self.rows += counts.rows_read
        self._at(Failpoint.COUNTED)

    def tell_taken(self, batch_id: int, aside: int) -> bool:
        """Count a batch that is in the table by what its commits tell; *aside* of its rows were set aside before.

        False where it is not in the table.
        """
        place, transaction = self._place, self._recounting.committed_as(batch_id)
        if transaction is None:
            return False
        self._fresh = False
        if self._known_counts(place.flow, place.epoch, batch_id) is not None:
            return True
        counts = FlowCounts(
            rows_written=rows_of_transaction(place.table, transaction, batch_id) or 0,
            rows_quarantined=aside + quarantined_rows(place.quarantine, place.identity, place.epoch, batch_id),
            recovered=True,
        )
        self._tell(batch_id, counts)
        self.batches += 1
        self._at(Failpoint.COUNTED)
        return True

    def tell_committed(self, batch_id: int) -> None:
        """Count a batch that is in the table and whose rows cannot be had again, by what its commit tells."""
        place = self._place
        if self._known_counts(place.flow, place.epoch, batch_id) is None:
            self._tell(batch_id, FlowCounts(recovered=True))

    def _write_judged(self, frame: DataFrame, batch_id: int) -> FlowCounts:
        observation = Observation()
        judged = self._judging.judged(frame)
        rows = judged.observe(observation, *self._judging.counters)
        self._commit(kept(rows, self._judging.rules), batch_id, rows)
        if not completed(observation, frame.sparkSession):
            # Delta skipped the write: another process has committed this very batch meanwhile.
            return self._recounting.counts(frame, batch_id)
        counts = counts_from(observation.get, self._judging.rules)
        self._sampling.look(judged, batch_id, counts)
        return self._judging.with_row_counts(counts)

    def _write_with_quarantine(self, frame: DataFrame, batch_id: int, *, fresh: bool) -> FlowCounts:
        rows = self._judging.judged(frame).persist(StorageLevel.MEMORY_AND_DISK)
        sets_aside = bool(self._judging.rules.with_action(Action.QUARANTINE))
        try:
            counts = self._judging.aggregated(rows)
            if self._judging.beyond is not None:
                self._judging.beyond.check_rows(counts, self._place.flow, self._place.dataset)
            # Another attempt at this batch may have left rows there, or may still come to it and be kept out.
            again = fresh and self._place.repeats
            if sets_aside and (counts.rows_quarantined or self._place.replaces or again):
                self._quarantining(rows, batch_id, again=again)
            self._commit(kept(rows, self._judging.rules), batch_id, rows)
            self._sampling.look(rows, batch_id, counts)
        finally:
            rows.unpersist()
        return self._judging.with_row_counts(counts)

    def _commit(self, rows: DataFrame, batch_id: int, judged: DataFrame) -> None:
        if self._merge is not None:
            self._committed = self._merge(rows, batch_id, judged)
        else:
            self._add(rows, batch_id)

    def _tell(self, batch_id: int, counts: FlowCounts, duration_ms: int | None = None) -> None:
        """Say that a batch is done; of one that was merged, with what its commit tells."""
        place, path, written = self._place, None, None
        merges = self._merge is not None and self._committed
        found = merged_rows(place.table, place.transaction, batch_id) if merges else None
        if found is not None:
            path, written = found.path, found.written
            counts = replace(counts, rows_upserted=found.upserted, rows_deleted=found.deleted, changes=found.changes)
        self._emit(BatchDone(place.flow, place.dataset, place.epoch, batch_id, counts, duration_ms, path, written))

    def _add(self, rows: DataFrame, batch_id: int) -> None:
        rows = with_values(rows, self._place.required, self._place.dataset)
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
        self._at(Failpoint.TO_WRITE)
        self._fence()
        writer.save(self._place.table)
        if clusters_anew:
            # Delta forgets the clustering with the old schema.
            columns = ", ".join(quoted(*column.split(".")) for column in self._place.cluster_by)
            rows.sparkSession.sql(f"ALTER TABLE delta.{quoted(self._place.table)} CLUSTER BY ({columns})")
        self._at(Failpoint.WRITTEN)

    def _fits(self, rows: DataFrame) -> bool:
        """True when the rows have the columns that the table has, and it is not partitioned."""
        state = table_state(self._place.table)
        if state is None or state.partition_by:
            return False
        return state.schema.nullable == Schema.from_json(rows.schema.json()).nullable
