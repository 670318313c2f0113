"""Stores batches on which a sink fails as dead letters, while the flow continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.model.dead_letter_policy import MAX_ROWS_OF_DEAD_BATCH, too_many_batches
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.ports import Emit, Failed
from headrace.runtime.retry import retryable
from headrace.spark.deadletter.json_rows import as_json, whole_row
from headrace.spark.sinks.sink import Batch, Sink
from headrace.spark.update.guard import Guard
from headrace.storage.dead_letters import DeadLetter, DeadLetterBatch, whole_batches, write_dead_letters
from headrace.stores.paths import StoragePath

# Errors about rows after which the sink has nothing of the batch: from the user's data source, in a worker, and from a
# database that has rolled back its transaction.
_ROW_ERROR_CODES = frozenset({"FLOW.USER_CODE", "ROWS.TOO_MANY_REFUSED"})
# SQLSTATE classes of errors in rows, not in the table or in privileges.
_DATABASE, _ROW_ERROR_STATES = "JDBC.WRITE", ("22", "23")
_MAX_REASON_LENGTH = 500


@dataclass(frozen=True)
class FailedBatchContext:
    """The flow whose failed batches become dead letters.

    Attributes:
        folder: of the flow; holds its record.
        identity: identifies the flow's dead letters.
        update_id: of this update.
        dataset: the flow's target.
        report: describes an error of the flow.
        guard: failpoints and fencing of each step.
        emit: gets a warning for each batch.
        now: the time, in seconds since 1970.
        redact: removes secrets from a text.
        dead_letter_lock: held while rows are stored, because the sinks of a flow may fail in parallel.
    """

    folder: StoragePath
    identity: str
    update_id: str
    dataset: str
    report: Callable[[BaseException], Failed]
    guard: Guard
    emit: Emit
    now: Callable[[], float]
    redact: Callable[[str], str]
    dead_letter_lock: Lock


class StillFails(Exception):
    """In a replay, a sink fails again on a batch, because of the batch itself; the cause is the sink's error."""


class DeadLetterSink:
    """A sink whose failed batches become dead letters.

    Use it for sinks that have nothing of a batch on which they fail, or whose owner handles repeats.

    Args:
        sink: the sink, which may fail.
        name: of the sink.
        context: the flow.
        stores_batches: store failed batches. Otherwise, it only delivers repeated batches that were stored before.
    """

    def __init__(self, sink: Sink, name: str, context: FailedBatchContext, *, stores_batches: bool) -> None:
        self._sink = sink
        self._name = name
        self._context = context
        self._stores_batches = stores_batches

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Deliver a batch, or store it as dead letters. A batch from the spill queue fails as without this class.

        Raises:
            StillFails: in a replay.
        """
        context = self._context
        if batch.was_spilled:
            return self._sink.deliver(rows, batch)
        with context.dead_letter_lock:
            # A whole batch that an earlier attempt has stored is delivered once more. Single rejected rows stay dead
            # letters: if the sink has the other rows already, it does not get the batch again.
            if batch.number in whole_batches(context.folder, batch.epoch, self._name):
                write_dead_letters(context.folder, self._dead_letter_batch(batch), [], context.guard.fence)
        if not self._stores_batches and batch.epoch >= 0:
            return self._sink.deliver(rows, batch)
        from_user_code: list[Exception] = []
        try:
            return self._sink.deliver(rows, replace(batch, on_failure=from_user_code.append))
        except Exception as error:
            if not self._is_caused_by_batch(self._context.report(error), from_user_code=error in from_user_code):
                raise
            if batch.epoch < 0:
                raise StillFails from error
            self._store_batch(rows, batch, error)
            return None

    def _is_caused_by_batch(self, report: Failed, *, from_user_code: bool) -> bool:
        if retryable(report):
            return False
        state = str(report.error.params.get("state", ""))
        is_row_error = report.condition == _DATABASE and state.startswith(_ROW_ERROR_STATES)
        return from_user_code or is_row_error or report.condition in _ROW_ERROR_CODES

    def _store_batch(self, rows: DataFrame, batch: Batch, error: Exception) -> None:
        """Store all rows of a batch as dead letters.

        Raises:
            PipelineError: ROWS.BATCHES_FAIL, ROWS.BATCH_TOO_LARGE.
        """
        context, report = self._context, self._context.report(error)
        first = report.error
        reason = context.redact(str(first.params.get("reason", first.message)))[:_MAX_REASON_LENGTH]
        failed_batches = too_many_batches(whole_batches(context.folder, batch.epoch, self._name), batch.number)
        if failed_batches is not None:
            params = {"flow": batch.flow, "count": failed_batches, "reason": reason}
            raise PipelineError("ROWS.BATCHES_FAIL", location=first.location, **params) from error
        whole_rows = rows.select(as_json(whole_row(rows)))
        rows_json = [row[0] for row in whole_rows.limit(MAX_ROWS_OF_DEAD_BATCH + 1).collect()]
        if len(rows_json) > MAX_ROWS_OF_DEAD_BATCH:
            size = {"batch": batch.number, "count": rows.count(), "most": MAX_ROWS_OF_DEAD_BATCH, "flow": batch.flow}
            raise PipelineError("ROWS.BATCH_TOO_LARGE", location=first.location, reason=reason, **size) from error
        context.guard.failpoint(Failpoint.BEFORE_QUARANTINE)
        with context.dead_letter_lock:
            dead_letters = [DeadLetter(text, reason, report.condition, {}) for text in rows_json]
            write_dead_letters(context.folder, self._dead_letter_batch(batch), dead_letters, context.guard.fence)
        context.guard.failpoint(Failpoint.QUARANTINED)
        count = f"{len(rows_json)} row{'' if len(rows_json) == 1 else 's'}"
        message = f'flow "{batch.flow}": sink "{self._name}" fails on batch {batch.number}'
        warning = f"{message}, moved to dead letters as a whole ({count}): {reason}"
        context.emit(Warned("ROWS.BATCH_SET_ASIDE", warning, batch.flow, context.dataset))
        if batch.rejected_rows is not None:
            batch.rejected_rows.clear()

    def _dead_letter_batch(self, batch: Batch) -> DeadLetterBatch:
        context = self._context
        at = datetime.fromtimestamp(context.now(), UTC)
        return DeadLetterBatch(
            context.identity, batch.epoch, batch.number, context.update_id, at, self._name, whole=True
        )
