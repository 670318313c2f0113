"""A database table as a sink: writes each batch atomically and exactly once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.runtime.failpoints import Failpoint
from headrace.sinks.commit_notes import CommitRecord
from headrace.sinks.database import WHOLE_ROW, WRITE_FAILED, StagedPart, TableWriter
from headrace.sinks.database_types import column_types, is_nested
from headrace.sinks.rejected_rows import RejectedRow
from headrace.sources.worker_errors import relay_problems
from headrace.spark.deadletter.json_rows import as_json, whole_row
from headrace.spark.sinks.sink import Batch
from headrace.spark.update.guard import Guard

if TYPE_CHECKING:
    import sqlalchemy as sa

_PARTS = "part int, attempt string, rows bigint, refused string"
_RANK = "headrace_rank"


@dataclass(frozen=True)
class JdbcSink:
    """A database table.

    Attributes:
        writer: of the table; each batch sets its transaction.
        guard: failpoints and fencing of each step.
        now: the time, in seconds since 1970.
        tasks: the maximum number of parallel writers; None for no limit.
    """

    writer: TableWriter
    guard: Guard
    now: Callable[[], float]
    tasks: int | None = None

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Write a batch to the table, in one transaction of the database."""
        writer = replace(self.writer, transaction=batch.transaction)
        with writer.open_engine() as engine:
            try:
                last, count = writer.last_batch(engine)
                if last.includes(batch.number, batch.positions, writer.database.description):
                    return None if writer.keys else count
                count = self._write_batch(rows, batch, writer, engine)
                # With keys, *count* lacks rows whose key another row of the batch has; they count as written, too.
                return None if writer.keys else count
            finally:
                # If an attempt dies, the flow's next one drops its staging table. An update that lost its lease must
                # not drop the staging table of the next one.
                with suppress(PipelineError):
                    self.guard.fence()
                    writer.drop_stage(engine)

    def last_commit(self, transaction: str, session: SparkSession) -> CommitRecord:  # noqa: ARG002 - as other sinks need it
        """The last batch that the database has recorded for a transaction."""
        writer = replace(self.writer, transaction=transaction)
        with writer.open_engine() as engine:
            return writer.last_batch(engine)[0]

    def _write_batch(self, rows: DataFrame, batch: Batch, writer: TableWriter, engine: sa.Engine) -> int:
        schema = Schema.from_json(rows.schema.json())
        self.guard.fence()
        names = writer.create_stage(engine, column_types(schema))
        self.guard.before(Failpoint.BEFORE_WRITE)
        parts, rejected = self._stage(
            rows, schema, writer, list(names.values()), collect_rejected=batch.rejected_rows is not None
        )
        count = sum(part.rows for part in parts) + len(rejected)
        for one in rejected:
            self._reject(batch, one)
        self.guard.before(Failpoint.STAGED)
        now = datetime.fromtimestamp(self.now(), UTC)

        def before_commit() -> None:
            if batch.rejected_rows is not None:
                # After the commit, the rejected rows would be lost.
                batch.rejected_rows.store(count)
            self.guard.fence()

        reject = None if batch.rejected_rows is None else partial(self._reject, batch)
        record = CommitRecord(batch.number, batch.positions)
        writer.commit_batch(engine, list(names.values()), record, parts, count, now, before_commit, reject)
        self.guard.failpoint(Failpoint.WRITTEN)
        return count

    def _reject(self, batch: Batch, rejected: RejectedRow) -> None:
        if batch.rejected_rows is not None:
            description = self.writer.database.description
            batch.rejected_rows.add(rejected, PipelineError(WRITE_FAILED, database=description, reason=rejected.reason))

    def _stage(
        self, rows: DataFrame, schema: Schema, writer: TableWriter, names: Sequence[str], *, collect_rejected: bool
    ) -> tuple[list[StagedPart], list[RejectedRow]]:
        """Write the rows to the staging table, from Spark's tasks; returns each task's part, and the rejected rows."""
        pairs = zip(schema.columns, names, strict=True)
        columns = [_as_text(column.name, column.json_type).alias(stored) for column, stored in pairs]
        if collect_rejected:
            columns.append(as_json(whole_row(rows)).alias(WHOLE_ROW))
        found = (_latest_per_key(rows, writer) if writer.keys else rows).select(*columns)
        if self.tasks is not None:
            found = found.coalesce(self.tasks)
        results = found.mapInArrow(_stage_task(writer, names, collect_rejected=collect_rejected), _PARTS).collect()
        rejected = [RejectedRow(*one) for part in results for one in json.loads(part["refused"])]
        return [StagedPart(part["part"], part["attempt"], part["rows"]) for part in results], rejected


def _latest_per_key(rows: DataFrame, writer: TableWriter) -> DataFrame:
    """The last row of each key: by ``sequence_by``, then the greatest row."""
    whole = [_as_text(field.name, field.dataType.json()).desc_nulls_last() for field in rows.schema.fields]
    order = [F.col(quoted(writer.sequence_by)).desc_nulls_last()] if writer.sequence_by is not None else []
    window = Window.partitionBy(*(quoted(key) for key in writer.keys)).orderBy(*order, *whole)
    return rows.withColumn(_RANK, F.row_number().over(window)).where(F.col(_RANK) == 1).drop(_RANK)


def _as_text(name: str, json_type: str) -> Column:
    """A column, with structs, arrays and maps as JSON."""
    value = F.col(quoted(name))
    return F.to_json(value) if is_nested(json_type) else value


def _stage_task(
    writer: TableWriter, names: Sequence[str], *, collect_rejected: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function with which a task stages its rows."""
    column_names = tuple(names)

    @relay_problems
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        # Two attempts of a task, on two machines, may both succeed; the driver gets the result of one.
        own_part = StagedPart(part, uuid.uuid4().hex, 0)
        rejected: list[RejectedRow] = []
        with writer.open_engine() as engine:
            count = writer.stage_rows(
                engine,
                column_names,
                (row for batch in batches for row in batch.to_pylist()),
                own_part,
                rejected if collect_rejected else None,
            )
        rejected_json = json.dumps([(one.row, one.reason, one.code) for one in rejected])
        results = {"part": part, "attempt": own_part.attempt, "rows": count, "refused": rejected_json}
        yield pa.RecordBatch.from_pylist([results], schema=_ARROW_PARTS)

    return stage


_ARROW_PARTS = pa.schema(
    [("part", pa.int32()), ("attempt", pa.string()), ("rows", pa.int64()), ("refused", pa.string())]
)
