"""Batches that a sink fails with as a whole: set aside, as the query has returned them, while the flow goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.model.failing_rows import MOST_OF_A_WHOLE_BATCH, too_many_batches
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.ports import Emit, Failed
from headrace.runtime.retry import retryable
from headrace.spark.deadletter.json_rows import as_json, whole_row
from headrace.spark.sinks.sink import Batch, Guard, Sink
from headrace.storage.dead_letters import FailingRow, OfBatch, keep_failing, whole_batches

# What is said of rows that are not taken, and of a batch of which nothing is there then: by a data source of the
# user's, in a worker, and by a database that has taken back its transaction.
_VERDICTS = frozenset({"FLOW.USER_CODE", "ROWS.TOO_MANY_REFUSED"})
# Of these the rows are to blame, and not the table or what the user may do (SQLSTATE).
_DATABASE, _STATES_OF_ROWS = "JDBC.WRITE", ("22", "23")
_LONGEST_REASON = 500


@dataclass(frozen=True)
class FailedBatchPlace:
    """Whose batches are set aside, and where.

    Attributes:
        folder: of the flow, in which its record lies.
        identity: by which the flow's rows are known.
        update_id: of this update.
        dataset: the flow's target.
        report: of an error of the flow, what it is.
        guard: what is done around each step.
        emit: gets a warning for each batch.
        now: the time, in seconds since 1970.
        redact: takes secrets out of a text.
        storing: held by who stores rows; sinks of a flow fail side by side.
    """

    folder: Path
    identity: str
    update_id: str
    dataset: str
    report: Callable[[BaseException], Failed]
    guard: Guard
    emit: Emit
    now: Callable[[], float]
    redact: Callable[[str], str]
    storing: Lock


class StillFails(Exception):
    """A sink fails with a batch that was set aside, and nothing but the batch is to blame; the cause says how."""


class WithFailedBatches:
    """A sink without the batches that it fails with.

    It is meant for sinks that have nothing of a batch that they fail with, or whose owner says what a repeat is.

    Args:
        sink: that may fail.
        name: of the sink.
        place: where its batches are set aside.
        goes_on: set aside what it fails with; otherwise a batch that was set aside and comes again is delivered, and
            nothing else is different.
    """

    def __init__(self, sink: Sink, name: str, place: FailedBatchPlace, *, goes_on: bool) -> None:
        self._sink = sink
        self._name = name
        self._place = place
        self._goes_on = goes_on

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Take a batch, or set it aside; one that has waited fails as ever.

        Raises:
            StillFails: of a replay.
        """
        place = self._place
        if batch.waited:
            return self._sink.deliver(rows, batch)
        with place.storing:
            # What an earlier try has set aside of a whole batch is delivered once more. Rows that the sink has refused
            # stay where they are: a sink that has the others already is not asked again.
            if batch.number in whole_batches(place.folder, batch.epoch, self._name):
                keep_failing(place.folder, self._of(batch), [], place.guard.fence)
        if not self._goes_on and batch.epoch >= 0:
            return self._sink.deliver(rows, batch)
        by_user: list[Exception] = []
        try:
            return self._sink.deliver(rows, replace(batch, failed=by_user.append))
        except Exception as error:
            if not self._is_to_blame(self._place.report(error), by_user=error in by_user):
                raise
            if batch.epoch < 0:
                raise StillFails from error
            self._set_aside(rows, batch, error)
            return None

    def _is_to_blame(self, report: Failed, *, by_user: bool) -> bool:
        if retryable(report):
            return False
        state = str(report.error.params.get("state", ""))
        of_rows = report.condition == _DATABASE and state.startswith(_STATES_OF_ROWS)
        return by_user or of_rows or report.condition in _VERDICTS

    def _set_aside(self, rows: DataFrame, batch: Batch, error: Exception) -> None:
        """Store all rows of a batch.

        Raises:
            PipelineError: ROWS.BATCHES_FAIL, ROWS.BATCH_TOO_LARGE.
        """
        place, report = self._place, self._place.report(error)
        first = report.error
        reason = place.redact(str(first.params.get("reason", first.message)))[:_LONGEST_REASON]
        many = too_many_batches(whole_batches(place.folder, batch.epoch, self._name), batch.number)
        if many is not None:
            said = {"flow": batch.flow, "count": many, "reason": reason}
            raise PipelineError("ROWS.BATCHES_FAIL", location=first.location, **said) from error
        texts = [row[0] for row in rows.select(as_json(whole_row(rows))).limit(MOST_OF_A_WHOLE_BATCH + 1).collect()]
        if len(texts) > MOST_OF_A_WHOLE_BATCH:
            size = {"batch": batch.number, "count": rows.count(), "most": MOST_OF_A_WHOLE_BATCH, "flow": batch.flow}
            raise PipelineError("ROWS.BATCH_TOO_LARGE", location=first.location, reason=reason, **size) from error
        place.guard.at(Failpoint.TO_SET_ASIDE)
        with place.storing:
            told = [FailingRow(text, reason, report.condition, {}) for text in texts]
            keep_failing(place.folder, self._of(batch), told, place.guard.fence)
        place.guard.at(Failpoint.QUARANTINED)
        count = f"{len(texts)} row{'' if len(texts) == 1 else 's'}"
        message = f'flow "{batch.flow}": sink "{self._name}" fails with batch {batch.number}'
        said_of_rows = f"{message}, set aside with all of its {count}: {reason}"
        place.emit(Warned("ROWS.BATCH_SET_ASIDE", said_of_rows, batch.flow, place.dataset))
        if batch.refusals is not None:
            batch.refusals.forget()

    def _of(self, batch: Batch) -> OfBatch:
        place = self._place
        at = datetime.fromtimestamp(place.now(), UTC)
        return OfBatch(place.identity, batch.epoch, batch.number, place.update_id, at, self._name, whole=True)
