"""A table of Delta as a sink: batches are appended, each under the flow's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from headrace.checkpoints.delta_log import committed_transaction
from headrace.runtime.seam import Point
from headrace.spark.commits import rows_of_transaction
from headrace.spark.sinks.sink import Batch, Guard


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
        newest = committed_transaction(self.path, batch.transaction) if self.local else None
        if newest is not None and newest >= batch.number:
            return rows_of_transaction(self.path, batch.transaction, batch.number)
        writer = rows.write.format("delta").mode("append").options(**self.options)
        writer = writer.option("txnAppId", batch.transaction).option("txnVersion", str(batch.number))
        if self.partition_by and newest is None:
            writer = writer.partitionBy(*self.partition_by)
        self.guard.before(Point.TO_WRITE)
        writer.save(self.path)
        self.guard.at(Point.WRITTEN)
        return None
