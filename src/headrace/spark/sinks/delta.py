"""A Delta table as a sink: appends each batch under the flow's transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from headrace.delta_log.tables import committed_transaction
from headrace.runtime.failpoints import Failpoint
from headrace.sinks.commit_notes import NO_BATCH, CommitRecord
from headrace.spark.delta.commit_counts import rows_of_transaction, user_metadata
from headrace.spark.sinks.sink import Batch
from headrace.spark.update.guard import Guard

# The key in a commit's user metadata.
_POSITIONS = "headrace.positions"


@dataclass(frozen=True)
class DeltaSink:
    """A table by path; the first batch creates it.

    Attributes:
        path: of the table's folder.
        guard: failpoints and fencing.
        options: of Delta's writer.
        partition_by: partition columns of a new table.
        local: its log can be read without Spark.
    """

    path: str
    guard: Guard
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    local: bool = True

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Append a batch; Delta skips it if its transaction is in the table's log."""
        record = self._commit_record(batch.transaction)
        if record.includes(batch.number, batch.positions, f'"{self.path}"'):
            return rows_of_transaction(self.path, batch.transaction, batch.number)
        writer = rows.write.format("delta").mode("append").options(**self.options)
        writer = writer.option("txnAppId", batch.transaction).option("txnVersion", str(batch.number))
        if batch.positions:
            writer = writer.option("userMetadata", json.dumps({_POSITIONS: batch.positions}))
        if self.partition_by and record.batch == NO_BATCH:
            writer = writer.partitionBy(*self.partition_by)
        self.guard.before(Failpoint.BEFORE_WRITE)
        writer.save(self.path)
        self.guard.failpoint(Failpoint.WRITTEN)
        return None

    def last_commit(self, transaction: str, session: SparkSession) -> CommitRecord:  # noqa: ARG002 - as other sinks need it
        """The last batch of a transaction in the table."""
        return self._commit_record(transaction)

    def _commit_record(self, transaction: str) -> CommitRecord:
        newest = committed_transaction(self.path, transaction) if self.local else None
        if newest is None:
            return CommitRecord()
        metadata = user_metadata(self.path, transaction, newest)
        return CommitRecord(newest, str(metadata.get(_POSITIONS, "")))
