"""A table of a database as a sink: each batch is in it once, whole or not at all."""

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
from headrace.sinks.commit_notes import Note
from headrace.sinks.database import WHOLE, WRITE_FAILED, Staged, TableWriter
from headrace.sinks.database_types import column_types, is_nested
from headrace.sinks.refusals import RefusedRow
from headrace.sources.worker_errors import telling
from headrace.spark.deadletter.json_rows import as_json, whole_row
from headrace.spark.sinks.sink import Batch, Guard

if TYPE_CHECKING:
    import sqlalchemy as sa

_PARTS = "part int, attempt string, rows bigint, refused string"
_RANK = "headrace_rank"


@dataclass(frozen=True)
class JdbcSink:
    """A table of a database.

    Attributes:
        writer: of the table; whose batches is told with each of them.
        guard: what is done around each step.
        now: the time, as seconds since 1970.
        tasks: how many write at a time, at most; None for as many as there are.
    """

    writer: TableWriter
    guard: Guard
    now: Callable[[], float]
    tasks: int | None = None

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Bring a batch into the table, in one transaction of the database."""
        writer = replace(self.writer, transaction=batch.transaction)
        with writer.connected() as engine:
            try:
                last, count = writer.last_batch(engine)
                if last.has(batch.number, batch.positions, writer.database.description):
                    return None if writer.keys else count
                count = self._brought(rows, batch, writer, engine)
                # Rows with a key that another one of the batch has as well were taken, too.
                return None if writer.keys else count
            finally:
                # What a try leaves that dies, the next one of the flow takes away; an update that was taken over leaves
                # the next one's alone.
                with suppress(PipelineError):
                    self.guard.fence()
                    writer.drop_stage(engine)

    def note_of(self, transaction: str, session: SparkSession) -> Note:  # noqa: ARG002 - as other sinks need it
        """The last batch that the database has noted of a transaction."""
        writer = replace(self.writer, transaction=transaction)
        with writer.connected() as engine:
            return writer.last_batch(engine)[0]

    def _brought(self, rows: DataFrame, batch: Batch, writer: TableWriter, engine: sa.Engine) -> int:
        schema = Schema.from_json(rows.schema.json())
        self.guard.fence()
        names = writer.make_stage(engine, column_types(schema))
        self.guard.before(Failpoint.TO_WRITE)
        parts, refused = self._staged(rows, schema, writer, list(names.values()), apart=batch.refusals is not None)
        count = sum(part.rows for part in parts) + len(refused)
        for one in refused:
            self._refuse(batch, one)
        self.guard.before(Failpoint.STAGED)
        now = datetime.fromtimestamp(self.now(), UTC)

        def then() -> None:
            if batch.refusals is not None:
                # Once the database has the batch, nobody can tell any more what was refused.
                batch.refusals.settle(count)
            self.guard.fence()

        refuse = None if batch.refusals is None else partial(self._refuse, batch)
        note = Note(batch.number, batch.positions)
        writer.take_over(engine, list(names.values()), note, parts, count, now, then, refuse)
        self.guard.at(Failpoint.WRITTEN)
        return count

    def _refuse(self, batch: Batch, refused: RefusedRow) -> None:
        if batch.refusals is not None:
            description = self.writer.database.description
            batch.refusals.add(refused, PipelineError(WRITE_FAILED, database=description, reason=refused.reason))

    def _staged(
        self, rows: DataFrame, schema: Schema, writer: TableWriter, names: Sequence[str], *, apart: bool
    ) -> tuple[list[Staged], list[RefusedRow]]:
        """Put the rows beside the table, from Spark's tasks; what each has put there, and what was refused *apart*."""
        pairs = zip(schema.columns, names, strict=True)
        columns = [_as_text(column.name, column.json_type).alias(stored) for column, stored in pairs]
        if apart:
            columns.append(as_json(whole_row(rows)).alias(WHOLE))
        found = (_newest(rows, writer) if writer.keys else rows).select(*columns)
        if self.tasks is not None:
            found = found.coalesce(self.tasks)
        told = found.mapInArrow(_staging(writer, names, apart=apart), _PARTS).collect()
        refused = [RefusedRow(*one) for part in told for one in json.loads(part["refused"])]
        return [Staged(part["part"], part["attempt"], part["rows"]) for part in told], refused


def _newest(rows: DataFrame, writer: TableWriter) -> DataFrame:
    """Of several rows with one key the one that comes last, which is the greatest where nothing says."""
    whole = [_as_text(field.name, field.dataType.json()).desc_nulls_last() for field in rows.schema.fields]
    order = [F.col(quoted(writer.sequence_by)).desc_nulls_last()] if writer.sequence_by is not None else []
    window = Window.partitionBy(*(quoted(key) for key in writer.keys)).orderBy(*order, *whole)
    return rows.withColumn(_RANK, F.row_number().over(window)).where(F.col(_RANK) == 1).drop(_RANK)


def _as_text(name: str, json_type: str) -> Column:
    """A column; structs, arrays and maps as JSON."""
    value = F.col(quoted(name))
    return F.to_json(value) if is_nested(json_type) else value


def _staging(
    writer: TableWriter, names: Sequence[str], *, apart: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with its rows."""
    ours = tuple(names)

    @telling
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        # Two tries of a task, on two machines, may both end well; the driver hears of one.
        mine = Staged(part, uuid.uuid4().hex, 0)
        refused: list[RefusedRow] = []
        with writer.connected() as engine:
            count = writer.put(
                engine, ours, (row for batch in batches for row in batch.to_pylist()), mine, refused if apart else None
            )
        said = json.dumps([(one.row, one.reason, one.code) for one in refused])
        told = {"part": part, "attempt": mine.attempt, "rows": count, "refused": said}
        yield pa.RecordBatch.from_pylist([told], schema=_ARROW_PARTS)

    return stage


_ARROW_PARTS = pa.schema(
    [("part", pa.int32()), ("attempt", pa.string()), ("rows", pa.int64()), ("refused", pa.string())]
)
