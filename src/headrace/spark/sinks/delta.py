"""A table of Delta as a sink: batches are appended, each under the flow's transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from headrace.delta_log.tables import committed_transaction
from headrace.runtime.failpoints import Failpoint
from headrace.sinks.commit_notes import NOTHING, Note
from headrace.spark.delta.commit_counts import rows_of_transaction, said_with_transaction
from headrace.spark.sinks.sink import Batch, Guard

# In what a commit says beside its rows.
_POSITIONS = "headrace.positions"


@dataclass(frozen=True)
class DeltaSink:
    """A table by its path; it is made by the first batch.

    Attributes:
        path: of the table's folder.
        guard: what is done around the write.
        options: of Delta's writer.
        partition_by: columns of a new table.
        local: whether its log can be read without Spark.
    """

    path: str
    guard: Guard
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    local: bool = True

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Append a batch; Delta passes over one whose transaction is in the table's log."""
        note = self._note(batch.transaction)
        if note.has(batch.number, batch.positions, f'"{self.path}"'):
            return rows_of_transaction(self.path, batch.transaction, batch.number)
        writer = rows.write.format("delta").mode("append").options(**self.options)
        writer = writer.option("txnAppId", batch.transaction).option("txnVersion", str(batch.number))
        if batch.positions:
            writer = writer.option("userMetadata", json.dumps({_POSITIONS: batch.positions}))
        if self.partition_by and note.batch == NOTHING:
            writer = writer.partitionBy(*self.partition_by)
        self.guard.before(Failpoint.TO_WRITE)
        writer.save(self.path)
        self.guard.at(Failpoint.WRITTEN)
        return None

    def note_of(self, transaction: str, session: SparkSession) -> Note:  # noqa: ARG002 - as other sinks need it
        """The last batch that the table has of a transaction."""
        return self._note(transaction)

    def _note(self, transaction: str) -> Note:
        newest = committed_transaction(self.path, transaction) if self.local else None
        if newest is None:
            return Note()
        said = said_with_transaction(self.path, transaction, newest)
        return Note(newest, str(said.get(_POSITIONS, "")))
