"""Appends frames of few rows to a Delta table without its Spark jobs: the rows are computed, and committed here."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.delta_log.append import Appended, TableAppender
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.model.small_batches import SMALL_BATCH_ROWS_KEY, small_batch_rows
from headrace.spark.delta.tables import delta_table

# A frame whose cached rows take more bytes is written by executors.
MAX_BYTES = 8 << 20
# What they ask for, only Delta's own writer does.
_DELTA_SETTINGS = (
    "spark.databricks.delta.commitInfo.userMetadata",
    "spark.databricks.delta.autoCompact.enabled",
    "spark.databricks.delta.optimizeWrite.enabled",
)


def most_rows(session: SparkSession) -> int:
    """The number of rows of the largest frame that is small, by the settings of a flow's session."""
    return small_batch_rows(session.conf.get(SMALL_BATCH_ROWS_KEY, None))


class SmallAppends:
    """Appends the small ones among the frames of a flow.

    Args:
        path: the path of the table.
        app_id: the application of its transactions.
        partition_by: the partition columns that the table must have.
    """

    def __init__(self, path: str, app_id: str, partition_by: tuple[str, ...] = ()) -> None:
        self._path = path
        self._appender = TableAppender(path, app_id, lambda: int(time.time() * 1000), lambda: str(uuid.uuid4()))
        self._partition_by = partition_by
        self._wants_delta: bool | None = None

    def append(
        self,
        rows: DataFrame,
        row_count: int,
        transaction: int,
        *,
        replace: bool = False,
        user_metadata: str | None = None,
        size_bytes: int | None = None,
        read_version: int | None = None,
    ) -> bool:
        """Commit rows of a cached frame as a version of the application's transactions, unless the table has it.

        Args:
            rows: the rows; computing them again costs little and gives the same.
            row_count: at least their number.
            transaction: the version of the transaction.
            replace: they take the place of all rows of the table.
            user_metadata: of the commit.
            size_bytes: about how many bytes they have; None if the plan of the frame says so.
            read_version: the version of the table that the commit has to follow; None for any.

        Returns:
            False if Delta's own writer has to do it: nothing was written.
        """
        session = rows.sparkSession
        if row_count > most_rows(session) or self._asks_for_more(session):
            return False
        if (_planned_bytes(rows) if size_bytes is None else size_bytes) > MAX_BYTES:
            return False
        order = self._appender.order_of(Schema.from_json(rows.schema.json()), self._partition_by)
        if order is None:
            return False
        ordered = rows if tuple(rows.columns) == order else rows.select(*map(quoted, order))
        taken = ordered.toArrow()
        return self._commit(
            session,
            lambda: self._appender.append(
                taken, transaction, replace=replace, user_metadata=user_metadata, read_version=read_version
            ),
        )

    def record(self, session: SparkSession, transaction: int, user_metadata: str, read_version: int) -> bool:
        """Commit a version of the application's transactions alone; arguments and result as above."""
        if not most_rows(session) or self._asks_for_more(session):
            return False
        return self._commit(session, lambda: self._appender.record(transaction, user_metadata, read_version))

    def _commit(self, session: SparkSession, append: Callable[[], Appended]) -> bool:
        try:
            done = append()
        except OSError:
            # File systems without hard links cannot create commits; if it is another fault, Spark will report it.
            return False
        if done is Appended.WRITTEN and self._appender.needs_checkpoint:
            self._checkpoint(session)
        return done is not Appended.CHANGED

    def _asks_for_more(self, session: SparkSession) -> bool:
        """Whether settings of the session ask Delta's writer for more than a commit."""
        if self._wants_delta is None:
            given = (session.conf.get(key, None) for key in _DELTA_SETTINGS)
            self._wants_delta = any(value not in (None, "", "false") for value in given)
        return self._wants_delta

    def _checkpoint(self, session: SparkSession) -> None:
        """Write a checkpoint of the table's log, as Delta does now and then after a commit; it reports no fault."""
        jvm: Any = session._jvm  # noqa: SLF001 - Delta has no other way
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, self._path)  # noqa: SLF001
        none = jvm.scala.Option.empty()
        log.checkpoint(log.update(False, none, none), none)  # noqa: FBT003 - Java has no keywords


def refresh_caches(session: SparkSession, path: str) -> None:
    """Let frames over a table that were cached be computed again, as Spark does after its own writes."""
    java: Any = session._jsparkSession  # noqa: SLF001 - the same
    manager = java.sharedState().cacheManager()
    if not manager.isEmpty():
        manager.recacheByPlan(java, delta_table(session, path).toDF().queryExecution().analyzed())


def _planned_bytes(rows: DataFrame) -> int:
    """The bytes of a frame, from its plan: those of a cached frame are known."""
    plan: Any = rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - plans have no public form
    return int(str(plan.stats().sizeInBytes()))
