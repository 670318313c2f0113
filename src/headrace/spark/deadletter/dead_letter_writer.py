"""Stores rows on which a stream's query fails as dead letters, and writes the rest of their batch.

If no such rows are found, or too many, the whole batch becomes dead letters, if the flow is configured so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.dead_letter_policy import (
    MAX_DEAD_LETTERS_PER_BATCH,
    MAX_ROWS_OF_DEAD_BATCH,
    MIN_ALLOWED_ROWS,
    DeadLetterPolicy,
    too_many_batches,
)
from headrace.runtime.bisect import NoSingleRowFails, TooManyFailures, find_failing_rows
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.retry import retryable
from headrace.spark.deadletter.batch_plan import BatchPlan
from headrace.spark.deadletter.json_rows import as_json
from headrace.spark.deadletter.numbered_rows import WHOLE_ROW, NumberedRows, numbered
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.update.batch_writer import BatchWriter
from headrace.spark.update.context import UpdateContext
from headrace.storage.dead_letters import (
    DeadLetter,
    DeadLetterBatch,
    count_failed_rows,
    has_dead_letters,
    read_dead_letters,
    whole_batches,
    write_dead_letters,
)
from headrace.storage.flow_record import FlowRecord
from headrace.stores.paths import StoragePath

_FILE = "headrace_file"
# The approximate number of recent rows to which the allowed share refers.
_WINDOW_ROWS = 1_000_000


class DeadLetterTarget(BatchWriter, Protocol):
    """Writes the batches of a query to their target."""

    rows: int

    def write(self, frame: DataFrame, batch_id: int, *, dead_letters: int = 0) -> None:
        """Write a batch, exactly once; *dead_letters* is the number of its rows that became dead letters before."""

    def count_if_written(self, batch_id: int, dead_letters: int) -> bool | None:
        """Count a batch that was written, without its rows; *dead_letters* of them became dead letters.

        False if it was not written; None if that is unknown.
        """


@dataclass(frozen=True)
class DeadLetterScope:
    """The flow of the batches.

    Attributes:
        flow: the flow.
        identity: identifies its dead letters, whatever its name.
        epoch: of the flow.
        folder: of the flow; holds its record.
        policy: how many rows may become dead letters.
    """

    flow: ResolvedFlow
    identity: str
    epoch: int
    folder: StoragePath
    policy: DeadLetterPolicy


class DeadLetterWriter:
    """Writes batches; if one fails, writes it once more without the rows on which it fails.

    A batch that is repeated after a crash fails on the same rows, which replace the stored ones.

    Args:
        context: the pipeline.
        scope: the flow.
        target: writes the batches.
    """

    def __init__(self, context: UpdateContext, scope: DeadLetterScope, target: DeadLetterTarget) -> None:
        self._context = context
        self._scope = scope
        self._row_errors = RowErrors(context, scope.flow)
        self._target = target
        self._is_first_batch = True
        # How many of the rows read became dead letters, and how many the target had at the last count.
        self._dead_letter_count = 0
        self._read = 0
        self._rows_seen = 0

    @property
    def batches(self) -> int:
        """The number of written batches."""
        return self._target.batches

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch. The dead letters of a repeated batch stay, if the batch was written without them."""
        scope, target, is_first_batch = self._scope, self._target, self._is_first_batch
        self._is_first_batch = False
        previously_failed = count_failed_rows(scope.folder, scope.epoch, batch_id) if is_first_batch else 0
        if previously_failed:
            is_written = target.count_if_written(batch_id, previously_failed)
            if is_written is None:
                self._write_again(frame, batch_id)
            if is_written is not False:
                return
            self._store(batch_id, [])
        try:
            target.write(frame, batch_id)
        # Errors of Spark's tasks; others are our own.
        except (PySparkException, Py4JJavaError) as error:
            if not scope.policy.is_enabled or not self._row_errors.may_be_caused_by_row(error):
                raise
            if is_first_batch and target.count_if_written(batch_id, 0):
                # It was written before, and today's code only counts it.
                return
            if scope.flow.analysis.operators:
                if retryable(self._row_errors.report(error)):
                    raise
                raise self._row_errors.stateful_flow_error(scope.epoch, batch_id, error) from error
            with self._rows(frame, error) as rows:
                # A non-deterministic query is expected to fail again, too.
                if (
                    self._row_errors.row_error(rows.error_without_rows()) is not None
                    or self._row_errors.row_error(rows.error_over(0, rows.count)) is None
                ):
                    # It fails without rows too, or the query passes, so that something else fails.
                    raise
                self._write_passing_rows(rows, batch_id, error)
        self._count_read(target.rows)

    def _write_again(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch again that a sink may have already; its dead letters stay out."""
        scope = self._scope
        if batch_id in whole_batches(scope.folder, scope.epoch, None):
            self._target.write(
                frame.limit(0), batch_id, dead_letters=count_failed_rows(scope.folder, scope.epoch, batch_id)
            )
            return
        stored_rows = [row.row for row in read_dead_letters(scope.folder, batch=(scope.epoch, batch_id))]
        with self._rows(frame, None) as rows:
            positions = rows.positions_of(stored_rows)
            self._target.write(rows.without(positions), batch_id, dead_letters=len(positions))

    def _write_passing_rows(self, rows: NumberedRows, batch_id: int, error: Exception) -> None:
        policy = self._scope.policy
        try:
            found = self._find_failing_rows(rows, error) if policy.accepts_rows and rows.repeatable else {}
        except (PySparkException, Py4JJavaError, PipelineError):
            if not policy.accepts_batches or retryable(self._row_errors.report(error)):
                raise
            found = {}
        if found:
            self._write_without(rows, batch_id, found)
        elif retryable(self._row_errors.report(error)):
            # A transient error is not caused by the batch.
            raise error
        else:
            self._store_whole_batch(rows, batch_id, error)

    def _store_whole_batch(self, rows: NumberedRows, batch_id: int, error: Exception) -> None:
        """Store a whole batch as dead letters, and write it without rows."""
        scope = self._scope
        failed_batches = too_many_batches(whole_batches(scope.folder, scope.epoch, None), batch_id)
        if failed_batches is not None:
            raise self._row_errors.failing_batches_error(failed_batches, error) from error
        if rows.count > MAX_ROWS_OF_DEAD_BATCH:
            raise self._row_errors.batch_too_large_error(batch_id, rows.count, error) from error
        reason, condition = self._row_errors.reason(error), self._row_errors.report(error).condition
        dead_letters = [
            DeadLetter(row["row"], reason, condition, _origin(json.loads(row["row"]), row[_FILE]), source)
            for source, row in rows.all_rows(_row_columns())
        ]
        self._store(batch_id, dead_letters, whole=True)
        self._context.reporting.emit(self._row_errors.batch_warning(batch_id, rows.count, error))
        self._target.write(rows.empty(), batch_id, dead_letters=rows.count)

    def _find_failing_rows(self, rows: NumberedRows, error: Exception) -> dict[int, Exception]:
        """The failing rows, by position, with their errors."""
        allowed = self._allowed(rows.count)
        found = self._suspected(rows, allowed)
        if not found or self._row_errors.row_error(rows.error_without(list(found))) is not None:
            found = self._bisect(rows, allowed, error)
        return found

    def _write_without(self, rows: NumberedRows, batch_id: int, found: Mapping[int, Exception]) -> None:
        self._store(batch_id, self._dead_letters(rows, found))
        self._dead_letter_count += len(found)
        self._context.reporting.emit(self._row_errors.warning(batch_id, found))
        self._target.write(rows.without(list(found)), batch_id, dead_letters=len(found))

    def _count_read(self, rows: int) -> None:
        """Count the rows read; old rows lose their weight."""
        self._read += rows - self._rows_seen
        self._rows_seen = rows
        if self._read > _WINDOW_ROWS:
            self._read, self._dead_letter_count = self._read // 2, self._dead_letter_count // 2

    def _rows(self, frame: DataFrame, error: Exception | None) -> AbstractContextManager[NumberedRows]:
        """The rows of a batch from the query's sources; *error* is the one of the batch, if any."""
        plan = BatchPlan.of(frame, self._context.session)
        if not plan.repeatable and (error is None or not self._scope.policy.accepts_batches):
            if error is not None and retryable(self._row_errors.report(error)):
                raise error
            flow = self._scope.flow
            reason = "" if error is None else f"It fails because {self._row_errors.reason(error)}."
            raise PipelineError("ROWS.NOT_REPEATABLE", location=flow.flow.location, flow=flow.name, reason=reason)
        return numbered(plan, plan.sources(), {_FILE: F.input_file_name()})

    def _dead_letters(self, rows: NumberedRows, found: Mapping[int, Exception]) -> list[DeadLetter]:
        """The dead letters of failing rows."""
        dead_letters = []
        for position, (source, row) in rows.rows(list(found), _row_columns()).items():
            error, origin = found[position], _origin(json.loads(row["row"]), row[_FILE])
            condition = self._row_errors.report(error).condition
            dead_letters.append(DeadLetter(row["row"], self._row_errors.reason(error), condition, origin, source))
        return dead_letters

    def _suspected(self, rows: NumberedRows, allowed: int) -> dict[int, Exception]:
        """Rows that Spark finds directly and that fail alone, with their errors; empty if that is not possible."""
        suspects = rows.suspects(allowed)
        if len(suspects) > allowed:
            return {}
        reasons = (
            (position, self._row_errors.row_error(rows.error_over(position, position + 1))) for position in suspects
        )
        return {position: reason for position, reason in reasons if reason is not None}

    def _bisect(self, rows: NumberedRows, allowed: int, error: Exception) -> dict[int, Exception]:
        """The failing rows, by position, with their errors, found by bisection."""
        try:
            return find_failing_rows(
                rows.count, lambda first, last: self._row_errors.row_error(rows.error_over(first, last)), allowed
            )
        except NoSingleRowFails:
            raise error from None
        except TooManyFailures:
            if retryable(self._row_errors.report(error)):
                raise error from None
            raise self._row_errors.too_many_rows_error(rows.count, allowed, self._dead_letter_count, error) from error

    def _allowed(self, count: int) -> int:
        """How many rows of a batch with *count* rows may become dead letters."""
        return min(
            max(int(self._scope.policy.max_share * (self._read + count)), MIN_ALLOWED_ROWS) - self._dead_letter_count,
            MAX_DEAD_LETTERS_PER_BATCH,
        )

    def _store(self, batch_id: int, rows: Sequence[DeadLetter], *, whole: bool = False) -> None:
        context, scope = self._context, self._scope
        at = datetime.fromtimestamp(context.reporting.now(), UTC)
        context.guard.failpoint(Failpoint.BEFORE_QUARANTINE)
        of_batch = DeadLetterBatch(scope.identity, scope.epoch, batch_id, context.update_id, at, whole=whole)
        write_dead_letters(scope.folder, of_batch, rows, context.guard.fence)
        context.guard.failpoint(Failpoint.QUARANTINED)


def with_dead_letters(
    context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, writer: DeadLetterTarget | None
) -> BatchWriter | None:
    """The writer of a flow's batches: *writer*, with dead letters if the flow is configured so."""
    if writer is None or not uses_dead_letters(context, flow):
        return writer
    policy = context.defaults.dead_letter_policy.with_confs(flow.flow.spark_conf)
    scope = DeadLetterScope(flow, record.identity, record.epoch, context.state.record_file(flow).parent, policy)
    return DeadLetterWriter(context, scope, writer)


def uses_dead_letters(context: UpdateContext, flow: ResolvedFlow) -> bool:
    """True if a flow stores failing rows as dead letters, or has some: their batch may be repeated."""
    policy = context.defaults.dead_letter_policy.with_confs(flow.flow.spark_conf)
    return policy.is_enabled or has_dead_letters(context.state.record_file(flow).parent)


def _row_columns() -> list[Column]:
    """The columns of a dead letter: the whole row as JSON, and its file."""
    return [as_json(F.col(WHOLE_ROW)).alias("row"), F.col(_FILE)]


def _origin(row: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The origin of a row, if its source reports it."""
    found = {key: row.get(key) for key in ("topic", "partition", "offset")}
    if isinstance(found["topic"], str) and isinstance(found["partition"], int) and isinstance(found["offset"], int):
        return found
    return {"file": file} if file else {}
