"""Delivers the batches of one flow to its sinks, and counts them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock

from pyspark import InheritableThread
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from headrace.checkpoints.offsets import positions_digest
from headrace.errors import PipelineError
from headrace.events.types import BatchDone, Warned
from headrace.model.dead_letter_policy import (
    MAX_DEAD_LETTERS_PER_BATCH,
    MIN_ALLOWED_ROWS,
    NO_DEAD_LETTERS,
    DeadLetterPolicy,
)
from headrace.model.outcome import FlowCounts
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.ports import Emit
from headrace.sinks.rejected_rows import RejectedRow, RejectedRows
from headrace.spark.sinks.batch_metrics import BatchMetrics
from headrace.spark.sinks.sink import Batch, Sink, transaction_name
from headrace.spark.sinks.spill_queue import SpillQueue, SpillQueueSink
from headrace.spark.tables.observed_rows import computed_once, observed_number
from headrace.spark.update.guard import Guard
from headrace.storage.dead_letters import DeadLetter, DeadLetterBatch, count_rejected_rows, write_dead_letters
from headrace.storage.deliveries import last_delivered, record_delivered
from headrace.storage.spill_queue import SpilledBatch, spilled_batches
from headrace.stores.paths import StoragePath

_ROWS = "rows"
# How many deliveries within one attempt of a flow get distinct attempt numbers.
_MAX_ATTEMPTS = 1 << 20
_MAX_REASON_LENGTH = 500


@dataclass(frozen=True)
class DeliveryContext:
    """The flow whose batches are delivered.

    Attributes:
        flow: its name.
        dataset: the sink's name, or that of a target with several sinks.
        delivery: a globally unique name of what the flow delivers in its epoch.
        epoch: of the flow.
        attempt: grows with every attempt of the flow, in this and in later updates.
        folder: of the flow; holds its record.
        is_stateful: Spark keeps state between its batches.
        identity: identifies the flow's dead letters.
        update_id: of this update.
        policy: whether sinks may reject single rows.
        fallbacks: the spill queues of sinks that may be down, by name.
        redact: removes secrets from a text.
        counts_first: cache and count rows before the delivery, because no one else reports their number, or they may
            become dead letters.
        dead_letter_lock: held while dead letters are stored.
    """

    flow: str
    dataset: str
    delivery: str
    epoch: int
    attempt: int
    folder: StoragePath
    is_stateful: bool
    identity: str = ""
    update_id: str = ""
    policy: DeadLetterPolicy = NO_DEAD_LETTERS
    fallbacks: Mapping[str, SpillQueue] = field(default_factory=dict)
    redact: Callable[[str], str] = str
    counts_first: bool = False
    dead_letter_lock: Lock = field(default_factory=Lock)


class SinkWriter:
    """Delivers the batches of one flow in one update to its sinks, one at a time.

    Args:
        context: the flow.
        sinks: by name.
        emit: gets a BatchDone for each batch, durable before :meth:`write` returns.
        known_counts: the counts of a batch from the event log, or None.
        guard: failpoints and fencing of each step.
        now: the time, in seconds since 1970.
    """

    def __init__(
        self,
        context: DeliveryContext,
        sinks: Mapping[str, Sink],
        emit: Emit,
        known_counts: Callable[[str, int, int], FlowCounts | None],
        guard: Guard,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        # Of this attempt of the flow: the number of rejected rows by sink and batch, and of deliveries.
        self._rejected: dict[tuple[str, int, int], int] = {}
        self._attempts = 0
        # The rows of batches that wait since an earlier attempt, by batch; and the first batch of this one.
        self._spilled_rows: dict[tuple[int, int], int] = {}
        self._first_batch: int | None = None
        self._context = context
        self._fallbacks = {
            name: SpillQueueSink(sinks[name], queue, guard, partial(self._spilled_batch, name))
            for name, queue in context.fallbacks.items()
        }
        self._sinks = {**sinks, **self._fallbacks}
        self._emit = emit
        self._known_counts = known_counts
        self._guard = guard
        self._may_be_repeat = True
        self._lock = Lock()
        self._delivered = last_delivered(context.folder, context.epoch)
        self._metrics = BatchMetrics(context.folder, context.epoch)
        self.batches = 0
        # How many rows the function returned, in all batches.
        self.rows = 0

    def write(self, frame: DataFrame, batch_id: int, *, dead_letters: int = 0) -> None:
        """Deliver a batch to the sinks that do not have it on record, then record and count it.

        *dead_letters* is the number of its rows that became dead letters before.
        """
        started_at = time.monotonic()
        self._first_batch = batch_id if self._first_batch is None else self._first_batch
        # If the batch fails, it may be repeated.
        context, may_be_repeat, self._may_be_repeat = self._context, self._may_be_repeat, True
        self._metrics.start(batch_id, may_be_repeat=may_be_repeat)
        due = {name: sink for name, sink in self._sinks.items() if self._delivered.get(name, -1) < batch_id}
        if not due:
            with computed_once(frame, context.is_stateful) as rows:
                if self._known_counts(context.flow, context.epoch, batch_id) is not None:
                    self._may_be_repeat = False
                    return
                counts = FlowCounts(rows_written=rows.count(), recovered=True)
        # A sink skips a batch that it has without computing it, but Spark's state needs the computation.
        elif (
            len(self._sinks) > 1 or context.counts_first or (context.is_stateful and (may_be_repeat or self._fallbacks))
        ):
            counts = self._deliver_to_all(frame, batch_id, due)
        else:
            counts = self._deliver(frame, batch_id)
        duration_ms = int((time.monotonic() - started_at) * 1000)
        rejected = count_rejected_rows(context.folder, context.epoch, batch_id) if context.policy.is_enabled else 0
        counts = replace(
            counts,
            rows_written=max(counts.rows_written - rejected, 0),
            rows_quarantined=dead_letters + rejected,
            metrics=self._metrics.values,
        )
        self._emit(BatchDone(context.flow, context.dataset, context.epoch, batch_id, counts, duration_ms))
        self._may_be_repeat = False
        self.batches += 1
        self.rows += counts.rows_read
        self._guard.failpoint(Failpoint.COUNTED)

    def record_spilled(self) -> None:
        """Record waiting batches as delivered, in case of a crash before the record: they must not be queued again."""
        for name, queue in self._context.fallbacks.items():
            numbers = [one.number for one in spilled_batches(queue.folder) if one.epoch == self._context.epoch]
            if max(numbers, default=-1) > self._delivered.get(name, -1):
                self._record_delivered(name, max(numbers))

    def count_if_written(self, batch_id: int, dead_letters: int) -> None:  # noqa: ARG002 - the interface of writers
        """None: a sink may have a batch without a record."""
        return

    @property
    def fallbacks(self) -> tuple[SpillQueueSink, ...]:
        """The sinks that may be down."""
        return tuple(self._fallbacks.values())

    def _batch(self, name: str, batch_id: int) -> Batch:
        context = self._context
        # A replay may have as many as were ever rejected.
        limit = MAX_DEAD_LETTERS_PER_BATCH if context.epoch >= 0 else sys.maxsize
        clear = partial(self._rejected.pop, (name, context.epoch, batch_id), None)
        rejected_rows = RejectedRows(limit, partial(self._store_rejected, name, context.epoch, batch_id), clear)
        batch = self._next_attempt(transaction_name(context.delivery, name), context.epoch, batch_id, rejected_rows)
        positions = positions_digest(context.folder / str(context.epoch), batch_id)
        return replace(batch, positions=positions, on_metrics=partial(self._metrics.set, name))

    def _spilled_batch(self, name: str, spilled: SpilledBatch) -> Batch:
        """The batch for a waiting one; its earlier rejected rows count towards the limit, too."""
        rows = spilled.rows()

        def store(rejected: Sequence[RejectedRow], _count: int | None) -> None:
            self._store_rejected(name, spilled.epoch, spilled.number, rejected, rows)
            if spilled.epoch != self._context.epoch or self._first_batch is None or spilled.number < self._first_batch:
                with self._lock:
                    self._spilled_rows[spilled.epoch, spilled.number] = rows

        batch = self._next_attempt(
            spilled.transaction(), spilled.epoch, spilled.number, RejectedRows(MAX_DEAD_LETTERS_PER_BATCH, store)
        )
        return replace(batch, was_spilled=True, positions=spilled.positions())

    def _next_attempt(self, transaction: str, epoch: int, batch_id: int, rejected_rows: RejectedRows) -> Batch:
        context = self._context
        with self._lock:
            self._attempts += 1
            attempt = context.attempt * _MAX_ATTEMPTS + min(self._attempts, _MAX_ATTEMPTS - 1)
        allowed = rejected_rows if context.policy.accepts_rows else None
        return Batch(transaction, context.flow, epoch, batch_id, attempt, allowed)

    def _store_rejected(
        self, name: str, epoch: int, batch_id: int, rejected: Sequence[RejectedRow], count: int | None
    ) -> None:
        """Store the rows of a batch that a sink rejects, in place of those it rejected when the batch came before."""
        context = self._context
        if not rejected and not count_rejected_rows(context.folder, epoch, batch_id):
            return
        at = datetime.fromtimestamp(self._now(), UTC)
        with context.dead_letter_lock:
            self._rejected[name, epoch, batch_id] = len(rejected)
            total = sum(self._rejected.values())
            share = int(context.policy.max_share * (self.rows + sum(self._spilled_rows.values()) + (count or 0)))
            if epoch >= 0 and total > max(MIN_ALLOWED_ROWS, share):
                reason = self._redacted_reason(rejected[0])
                raise PipelineError("ROWS.TOO_MANY_REFUSED", flow=context.flow, name=name, count=total, reason=reason)
            self._guard.failpoint(Failpoint.BEFORE_QUARANTINE)
            of_batch = DeadLetterBatch(context.identity, epoch, batch_id, context.update_id, at, name)
            rows = [DeadLetter(one.row, self._redacted_reason(one), one.code, {}) for one in rejected]
            write_dead_letters(context.folder, of_batch, rows, self._guard.fence)
        self._guard.failpoint(Failpoint.QUARANTINED)
        if rejected:
            number = f"{len(rejected)} row{'' if len(rejected) == 1 else 's'} of batch {batch_id}"
            reason = self._redacted_reason(rejected[0])
            message = f'flow "{context.flow}": sink "{name}" rejects {number}, moved to dead letters: {reason}'
            self._emit(Warned("ROWS.SET_ASIDE", message, context.flow, context.dataset))

    def _redacted_reason(self, rejected: RejectedRow) -> str:
        """Why a row is rejected, without secrets."""
        return self._context.redact(rejected.reason)[:_MAX_REASON_LENGTH]

    def _deliver(self, frame: DataFrame, batch_id: int) -> FlowCounts:
        """Deliver to a single sink, and count the rows on the way."""
        ((name, sink),) = self._sinks.items()
        observation = Observation()
        observed = frame.observe(observation, F.count(F.lit(1)).alias(_ROWS))
        count = sink.deliver(observed, self._batch(name, batch_id))
        self._record_delivered(name, batch_id)
        if count is None:
            count = observed_number(observation, frame.sparkSession, _ROWS)
        if count is not None:
            return FlowCounts(rows_written=count)
        # The sink had the batch before, or has not read its rows.
        return FlowCounts(rows_written=frame.count(), recovered=True)

    def _deliver_to_all(self, frame: DataFrame, batch_id: int, due: Mapping[str, Sink]) -> FlowCounts:
        """Deliver to several sinks in parallel, from one computation, except to those that have the batch."""
        rows = frame.persist(StorageLevel.MEMORY_AND_DISK)
        errors: dict[str, BaseException] = {}

        def deliver(name: str, sink: Sink) -> None:
            try:
                sink.deliver(rows, self._batch(name, batch_id))
                self._record_delivered(name, batch_id)
            except BaseException as error:  # noqa: BLE001 - raised below, after the others are done
                errors[name] = error

        try:
            counts = FlowCounts(rows_written=rows.count())
            threads = [InheritableThread(target=deliver, args=one) for one in due.items()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            rows.unpersist()
        self._raise_first(errors, batch_id)
        return counts

    def _record_delivered(self, name: str, batch_id: int) -> None:
        with self._lock:
            self._guard.fence()
            self._metrics.store(batch_id)
            self._delivered[name] = batch_id
            record_delivered(self._context.folder, self._context.epoch, self._delivered)
        self._guard.failpoint(Failpoint.DELIVERY_RECORDED)

    def _raise_first(self, errors: Mapping[str, BaseException], batch_id: int) -> None:
        """Warn of the sinks that lack the batch, and raise the error of the first one."""
        context = self._context
        for name in errors if len(self._sinks) > 1 else ():
            have = ", ".join(f'"{other}"' for other in self._sinks if other not in errors)
            others = f"it is in {have}" if have else "no other sink has it"
            message = f'flow "{context.flow}": sink "{name}" has not accepted batch {batch_id}; {others}'
            self._emit(Warned("SINK.BEHIND", message, context.flow, context.dataset))
        for name in self._sinks:
            if name in errors:
                raise errors[name]
