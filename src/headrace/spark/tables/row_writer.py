"""Commits the rows of a batch to the table of a flow: few rows without Spark, others with Delta's own writer."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from headrace.delta_log.tables import table_state
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.runtime.failpoints import Failpoint, Failpoints
from headrace.spark.delta.not_null_columns import reject_nulls
from headrace.spark.delta.small_append import SmallAppends
from headrace.spark.update.batch_target import BatchTarget


class RowWriter:
    """Appends the rows of each batch, or replaces those of the table by them, in one commit.

    Args:
        target: where to write.
        failpoint: called before and after the commit.
        fence: raises once another process holds the lease.
    """

    def __init__(self, target: BatchTarget, failpoint: Failpoints, fence: Callable[[], None]) -> None:
        self._target = target
        self._failpoint = failpoint
        self._fence = fence
        self._small_appends = SmallAppends(target.table, target.transaction)

    def __call__(self, rows: DataFrame, batch_id: int, row_count: int | None = None) -> None:
        """Commit the rows as the transaction of a batch; *row_count* is at least their number, if they are cached."""
        rows = reject_nulls(rows, self._target.required, self._target.dataset)
        self._failpoint(Failpoint.BEFORE_WRITE)
        self._fence()
        # Small appends write one file. And a view that gets partitions is laid out by Spark.
        small = (
            row_count is not None
            and not self._target.partition_by
            and self._small_appends.append(
                rows,
                row_count,
                batch_id,
                replace=self._target.replaces,
                user_metadata=self._target.user_metadata,
            )
        )
        if not small:
            self._save(rows, batch_id)
        self._failpoint(Failpoint.WRITTEN)

    def _save(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows with Delta's own writer."""
        writer = rows.write.format("delta").mode("overwrite" if self._target.replaces else "append")
        writer = writer.option("txnAppId", self._target.transaction).option("txnVersion", str(batch_id))
        if self._target.user_metadata is not None:
            writer = writer.option("userMetadata", self._target.user_metadata)
        reclusters = False
        if self._target.replaces and self._target.cluster_by and self._fits(rows):
            # With a condition that is always true, Delta replaces all rows and keeps the clustering.
            writer = writer.option("replaceWhere", "true")
        elif self._target.replaces:
            reclusters = bool(self._target.cluster_by)
            writer = writer.option("overwriteSchema", "true")
            if self._target.partition_by:
                writer = writer.partitionBy(*self._target.partition_by)
        writer.save(self._target.table)
        if reclusters:
            # Delta drops the clustering together with the old schema.
            columns = ", ".join(quoted(*column.split(".")) for column in self._target.cluster_by)
            rows.sparkSession.sql(f"ALTER TABLE delta.{quoted(self._target.table)} CLUSTER BY ({columns})")

    def _fits(self, rows: DataFrame) -> bool:
        """True if the rows have the columns of the table and it is not partitioned."""
        state = table_state(self._target.table)
        if state is None or state.partition_by:
            return False
        return state.schema.nullable == Schema.from_json(rows.schema.json()).nullable
