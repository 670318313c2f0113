"""Lets a stream go on without the rows that its query fails with: they are found, set aside, and the rest is taken.

Where none are found, or too many, the whole batch is set aside, if the flow wants that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow
from headrace.model.failing_rows import (
    FEW,
    MOST_OF_A_BATCH,
    MOST_OF_A_WHOLE_BATCH,
    OnFailingRows,
    too_many_batches,
)
from headrace.runtime.bisect import NoSingleRowFails, TooManyFailures, failing
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.retry import retryable
from headrace.spark.deadletter.batch_plan import BatchPlan
from headrace.spark.deadletter.json_rows import as_json
from headrace.spark.deadletter.numbered_rows import WHOLE, NumberedRows, numbered
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.update.batch_writer import BatchWriter
from headrace.spark.update.context import UpdateContext
from headrace.storage.dead_letters import (
    FailingRow,
    OfBatch,
    failing_of_batch,
    failing_rows_kept,
    keep_failing,
    stored_failing_rows,
    whole_batches,
)
from headrace.storage.flow_record import FlowRecord

_FILE = "headrace_file"
# How many rows the share is of, about.
_WINDOW_ROWS = 1_000_000


class TakesBatches(BatchWriter, Protocol):
    """What brings the batches of a query to where they belong."""

    rows: int

    def write(self, frame: DataFrame, batch_id: int, *, aside: int = 0) -> None:
        """Take a batch, once however often it comes; *aside* of its rows were set aside before."""

    def tell_taken(self, batch_id: int, aside: int) -> bool | None:
        """Count a batch that is where it belongs without looking at its rows, *aside* of which were set aside.

        False where it is not there; None where that cannot be told.
        """


@dataclass(frozen=True)
class Place:
    """Whose batches they are.

    Attributes:
        flow: the flow.
        identity: by which its rows are known, whatever it is called.
        epoch: of the flow.
        folder: of the flow, in which its record lies.
        policy: how many rows may be set aside.
    """

    flow: ResolvedFlow
    identity: str
    epoch: int
    folder: Path
    policy: OnFailingRows


class DeadLetterWriter:
    """Hands batches on, and those that fail once more, without the rows that they fail with.

    A batch that comes again after a crash fails with the same rows, which are set aside in the place of those before.

    Args:
        context: the pipeline.
        place: whose batches.
        target: what takes them.
    """

    def __init__(self, context: UpdateContext, place: Place, target: TakesBatches) -> None:
        self._context = context
        self._place = place
        self._failures = RowErrors(context, place.flow)
        self._target = target
        self._fresh = True
        # Rows that were set aside of those that were read, and how many the target had seen by then.
        self._aside = 0
        self._read = 0
        self._rows_seen = 0

    @property
    def batches(self) -> int:
        """How many were taken."""
        return self._target.batches

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch; of one that comes again, what was set aside stays so where the batch is taken without it."""
        place, target, fresh = self._place, self._target, self._fresh
        self._fresh = False
        before = failing_of_batch(place.folder, place.epoch, batch_id) if fresh else 0
        if before:
            taken = target.tell_taken(batch_id, before)
            if taken is None:
                self._deliver_again(frame, batch_id)
            if taken is not False:
                return
            self._keep(batch_id, [])
        try:
            target.write(frame, batch_id)
        # What Spark's tasks raise; the rest is ours.
        except (PySparkException, Py4JJavaError) as error:
            if not place.policy.goes_on or not self._failures.may_be_a_row(error):
                raise
            if fresh and target.tell_taken(batch_id, 0):
                # It is there, and the code of today only counts it.
                return
            if place.flow.analysis.operators:
                if retryable(self._failures.report(error)):
                    raise
                raise self._failures.stateful(place.epoch, batch_id, error) from error
            with self._rows(frame, error) as rows:
                # A query that gives other values each time fails as well as before.
                if (
                    self._failures.of_rows(rows.why_without_any()) is not None
                    or self._failures.of_rows(rows.why(0, rows.count)) is None
                ):
                    # It fails without rows as well, or something else than the query does.
                    raise
                self._take_what_passes(rows, batch_id, error)
        self._count_in(target.rows)

    def _deliver_again(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch that a sink may have without the rows that were set aside: it does not get them now either."""
        place = self._place
        if batch_id in whole_batches(place.folder, place.epoch, None):
            self._target.write(frame.limit(0), batch_id, aside=failing_of_batch(place.folder, place.epoch, batch_id))
            return
        stored = [row.row for row in stored_failing_rows(place.folder, batch=(place.epoch, batch_id))]
        with self._rows(frame, None) as rows:
            known = rows.positions_of(stored)
            self._target.write(rows.without(known), batch_id, aside=len(known))

    def _take_what_passes(self, rows: NumberedRows, batch_id: int, error: Exception) -> None:
        policy = self._place.policy
        try:
            found = self._found(rows, error) if policy.set_aside and rows.repeatable else {}
        except (PySparkException, Py4JJavaError, PipelineError):
            if not policy.whole_batches or retryable(self._failures.report(error)):
                raise
            found = {}
        if found:
            self._take_the_rest(rows, batch_id, found)
        elif retryable(self._failures.report(error)):
            # A batch is not to blame for what passes by itself.
            raise error
        else:
            self._leave_out(rows, batch_id, error)

    def _leave_out(self, rows: NumberedRows, batch_id: int, error: Exception) -> None:
        """Set aside a batch as a whole; it is none without rows then."""
        place = self._place
        many = too_many_batches(whole_batches(place.folder, place.epoch, None), batch_id)
        if many is not None:
            raise self._failures.too_many_batches(many, error) from error
        if rows.count > MOST_OF_A_WHOLE_BATCH:
            raise self._failures.too_large(batch_id, rows.count, error) from error
        reason, condition = self._failures.reason(error), self._failures.report(error).condition
        told = [
            FailingRow(row["row"], reason, condition, _place(json.loads(row["row"]), row[_FILE]), source)
            for source, row in rows.all_rows(_looked_at())
        ]
        self._keep(batch_id, told, whole=True)
        self._context.emit(self._failures.batch_warning(batch_id, rows.count, error))
        self._target.write(rows.none(), batch_id, aside=rows.count)

    def _found(self, rows: NumberedRows, error: Exception) -> dict[int, Exception]:
        """The rows that fail, by their positions, and what each raises."""
        allowed = self._allowed(rows.count)
        found = self._suspected(rows, allowed)
        if not found or self._failures.of_rows(rows.why_without(list(found))) is not None:
            found = self._searched(rows, allowed, error)
        return found

    def _take_the_rest(self, rows: NumberedRows, batch_id: int, found: Mapping[int, Exception]) -> None:
        self._keep(batch_id, self._told(rows, found))
        self._aside += len(found)
        self._context.emit(self._failures.warning(batch_id, found))
        self._target.write(rows.without(list(found)), batch_id, aside=len(found))

    def _count_in(self, rows: int) -> None:
        """Take note of how many rows were read; what was long ago says nothing of a query that fails now."""
        self._read += rows - self._rows_seen
        self._rows_seen = rows
        if self._read > _WINDOW_ROWS:
            self._read, self._aside = self._read // 2, self._aside // 2

    def _rows(self, frame: DataFrame, error: Exception | None) -> AbstractContextManager[NumberedRows]:
        """The rows that the sources of the query give for a batch, which has ended with an error if any."""
        plan = BatchPlan.of(frame, self._context.session)
        if not plan.repeatable and (error is None or not self._place.policy.whole_batches):
            if error is not None and retryable(self._failures.report(error)):
                raise error
            flow = self._place.flow
            reason = "" if error is None else f"It fails because {self._failures.reason(error)}."
            raise PipelineError("ROWS.NOT_REPEATABLE", location=flow.flow.location, flow=flow.name, reason=reason)
        return numbered(plan, plan.sources(), {_FILE: F.input_file_name()})

    def _told(self, rows: NumberedRows, found: Mapping[int, Exception]) -> list[FailingRow]:
        """Failing rows as they are set aside."""
        told = []
        for position, (source, row) in rows.rows(list(found), _looked_at()).items():
            error, place = found[position], _place(json.loads(row["row"]), row[_FILE])
            condition = self._failures.report(error).condition
            told.append(FailingRow(row["row"], self._failures.reason(error), condition, place, source))
        return told

    def _suspected(self, rows: NumberedRows, allowed: int) -> dict[int, Exception]:
        """Rows that were found at once and fail alone, and what each raises; none where it cannot be told."""
        suspects = rows.suspects(allowed)
        if len(suspects) > allowed:
            return {}
        reasons = ((position, self._failures.of_rows(rows.why(position, position + 1))) for position in suspects)
        return {position: reason for position, reason in reasons if reason is not None}

    def _searched(self, rows: NumberedRows, allowed: int, error: Exception) -> dict[int, Exception]:
        """The rows that fail, by their positions, and what each raises."""
        try:
            return failing(rows.count, lambda first, last: self._failures.of_rows(rows.why(first, last)), allowed)
        except NoSingleRowFails:
            raise error from None
        except TooManyFailures:
            if retryable(self._failures.report(error)):
                raise error from None
            raise self._failures.too_many(rows.count, allowed, self._aside, error) from error

    def _allowed(self, count: int) -> int:
        """How many rows of a batch of *count* may be set aside."""
        return min(max(int(self._place.policy.share * (self._read + count)), FEW) - self._aside, MOST_OF_A_BATCH)

    def _keep(self, batch_id: int, rows: Sequence[FailingRow], *, whole: bool = False) -> None:
        context, place = self._context, self._place
        at = datetime.fromtimestamp(context.now(), UTC)
        context.at(Failpoint.TO_SET_ASIDE)
        of_batch = OfBatch(place.identity, place.epoch, batch_id, context.update_id, at, whole=whole)
        keep_failing(place.folder, of_batch, rows, context.fence)
        context.at(Failpoint.QUARANTINED)


def sparing(
    context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, taker: TakesBatches | None
) -> BatchWriter | None:
    """What takes the batches of a flow: *taker*, without rows that the query fails with where the flow wants that."""
    if taker is None or not spares(context, flow):
        return taker
    policy = context.on_failing_rows.with_confs(flow.flow.spark_conf)
    place = Place(flow, record.identity, record.epoch, context.state.record_file(flow).parent, policy)
    return DeadLetterWriter(context, place, taker)


def spares(context: UpdateContext, flow: ResolvedFlow) -> bool:
    """True when rows of a flow are set aside where its query fails with them, or were: a batch may come again."""
    policy = context.on_failing_rows.with_confs(flow.flow.spark_conf)
    return policy.goes_on or failing_rows_kept(context.state.record_file(flow).parent)


def _looked_at() -> list[Column]:
    """Of a row: all of it as JSON, and its file."""
    return [as_json(F.col(WHOLE)).alias("row"), F.col(_FILE)]


def _place(row: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Where a row comes from, as far as its source says it."""
    found = {key: row.get(key) for key in ("topic", "partition", "offset")}
    if isinstance(found["topic"], str) and isinstance(found["partition"], int) and isinstance(found["offset"], int):
        return found
    return {"file": file} if file else {}
