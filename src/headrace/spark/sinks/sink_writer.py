"""Hands the batches of one flow to its sink, or to several, and counts them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock

from pyspark import InheritableThread
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from headrace.checkpoints.offsets import positions_digest
from headrace.errors import PipelineError
from headrace.events.types import BatchDone, Warned
from headrace.model.failing_rows import FAILS, FEW, MOST_OF_A_BATCH, OnFailingRows
from headrace.model.outcome import FlowCounts
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.ports import Emit
from headrace.sinks.refusals import Refusals, RefusedRow
from headrace.spark.sinks.sink import Batch, Guard, Sink, delivered_as
from headrace.spark.sinks.spill_queue import SpillPlace, WithSpillQueue
from headrace.spark.tables.observed_rows import computed_once, observed_number
from headrace.storage.dead_letters import FailingRow, OfBatch, keep_failing, refused_of_batch
from headrace.storage.deliveries import last_delivered, note_delivered
from headrace.storage.spill_queue import SpilledBatch, waiting_batches

_ROWS = "rows"
# Deliveries of one try of a flow that are told apart; the last ones look the same.
_MOST_TRIES = 1 << 20
_LONGEST_REASON = 500


@dataclass(frozen=True)
class DeliveryPlace:
    """Whose batches are delivered.

    Attributes:
        flow: its name.
        dataset: the sink's name, or that of the target that stands for several.
        delivery: what the flow delivers in its epoch, by a name that nothing else in the world has.
        epoch: of the flow.
        attempt: grows with every try of the flow, of this and of later updates.
        folder: of the flow, in which its record lies.
        stateful: whether Spark keeps state between its batches.
        identity: by which the flow's rows that are set aside are known.
        update_id: of this update.
        policy: whether sinks may do without rows that they refuse.
        fallbacks: by the names of sinks that may be down, where their batches wait.
        redact: takes secrets out of a text.
        counts_first: rows are kept and counted before they are delivered, because nobody tells how many were, or they
            may have to be set aside.
        storing: held by who stores rows that are set aside.
    """

    flow: str
    dataset: str
    delivery: str
    epoch: int
    attempt: int
    folder: Path
    stateful: bool
    identity: str = ""
    update_id: str = ""
    policy: OnFailingRows = FAILS
    fallbacks: Mapping[str, SpillPlace] = field(default_factory=dict)
    redact: Callable[[str], str] = str
    counts_first: bool = False
    storing: Lock = field(default_factory=Lock)


class SinkWriter:
    """The sinks of one flow in one update; its batches come one at a time.

    Args:
        place: whose batches.
        sinks: by name.
        emit: gets a BatchDone for each batch, durable before :meth:`write` returns.
        known_counts: the counts of a batch that are in the event log already, or None.
        guard: what is done around each step.
        now: the time, in seconds since 1970.
    """

    def __init__(
        self,
        place: DeliveryPlace,
        sinks: Mapping[str, Sink],
        emit: Emit,
        known_counts: Callable[[str, int, int], FlowCounts | None],
        guard: Guard,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        # Of this try of the flow: rows that sinks have refused, by the sink and the batch, and deliveries.
        self._refused: dict[tuple[str, int, int], int] = {}
        self._tries = 0
        # Rows of batches that wait since an earlier try, by the batch; and where this one has begun.
        self._waited: dict[tuple[int, int], int] = {}
        self._first: int | None = None
        self._place = place
        self._fallbacks = {
            name: WithSpillQueue(sinks[name], waiting, guard, partial(self._kept_batch, name))
            for name, waiting in place.fallbacks.items()
        }
        self._sinks = {**sinks, **self._fallbacks}
        self._emit = emit
        self._known_counts = known_counts
        self._guard = guard
        self._fresh = True
        self._noting = Lock()
        self._delivered = last_delivered(place.folder, place.epoch)
        self.batches = 0
        # How many rows of the function came, in all batches.
        self.rows = 0

    def write(self, frame: DataFrame, batch_id: int, *, aside: int = 0) -> None:
        """Deliver a batch to the sinks that it is not noted for; note and count it.

        *aside* of its rows were set aside before they came here.
        """
        began = time.monotonic()
        self._first = batch_id if self._first is None else self._first
        # A batch that fails may come again.
        place, again, self._fresh = self._place, self._fresh, True
        due = {name: sink for name, sink in self._sinks.items() if self._delivered.get(name, -1) < batch_id}
        if not due:
            with computed_once(frame, place.stateful) as rows:
                if self._known_counts(place.flow, place.epoch, batch_id) is not None:
                    self._fresh = False
                    return
                counts = FlowCounts(rows_written=rows.count(), recovered=True)
        # A sink that passes over a batch which it has does not compute it, which state cannot do without.
        elif len(self._sinks) > 1 or place.counts_first or (place.stateful and (again or self._fallbacks)):
            counts = self._deliver_to_all(frame, batch_id, due)
        else:
            counts = self._deliver(frame, batch_id)
        duration_ms = int((time.monotonic() - began) * 1000)
        refused = refused_of_batch(place.folder, place.epoch, batch_id) if place.policy.goes_on else 0
        counts = replace(counts, rows_written=max(counts.rows_written - refused, 0), rows_quarantined=aside + refused)
        self._emit(BatchDone(place.flow, place.dataset, place.epoch, batch_id, counts, duration_ms))
        self._fresh = False
        self.batches += 1
        self.rows += counts.rows_read
        self._guard.at(Failpoint.COUNTED)

    def note_waiting(self) -> None:
        """Note the batches that wait for a sink, which a crash may have prevented: they must not come there again."""
        for name, waiting in self._place.fallbacks.items():
            numbers = [one.number for one in waiting_batches(waiting.folder) if one.epoch == self._place.epoch]
            if max(numbers, default=-1) > self._delivered.get(name, -1):
                self._note(name, max(numbers))

    def tell_taken(self, batch_id: int, aside: int) -> None:  # noqa: ARG002 - what could be told
        """None: a sink may have a batch without a note."""
        return

    @property
    def fallbacks(self) -> tuple[WithSpillQueue, ...]:
        """The sinks that may be down."""
        return tuple(self._fallbacks.values())

    def _batch(self, name: str, batch_id: int) -> Batch:
        place = self._place
        # A replay may have as many as were ever refused.
        most = MOST_OF_A_BATCH if place.epoch >= 0 else sys.maxsize
        forget = partial(self._refused.pop, (name, place.epoch, batch_id), None)
        refusals = Refusals(most, partial(self._keep_refused, name, place.epoch, batch_id), forget)
        batch = self._tried(delivered_as(place.delivery, name), place.epoch, batch_id, refusals)
        return replace(batch, positions=positions_digest(place.folder / str(place.epoch), batch_id))

    def _kept_batch(self, name: str, kept: SpilledBatch) -> Batch:
        """A batch that has waited: what was refused before is judged among its rows too."""
        rows = kept.rows()

        def keep(refused: Sequence[RefusedRow], _count: int | None) -> None:
            self._keep_refused(name, kept.epoch, kept.number, refused, rows)
            if kept.epoch != self._place.epoch or self._first is None or kept.number < self._first:
                with self._noting:
                    self._waited[kept.epoch, kept.number] = rows

        batch = self._tried(kept.transaction(), kept.epoch, kept.number, Refusals(MOST_OF_A_BATCH, keep))
        return replace(batch, waited=True, positions=kept.positions())

    def _tried(self, transaction: str, epoch: int, batch_id: int, refusals: Refusals) -> Batch:
        place = self._place
        with self._noting:
            self._tries += 1
            attempt = place.attempt * _MOST_TRIES + min(self._tries, _MOST_TRIES - 1)
        allowed = refusals if place.policy.set_aside else None
        return Batch(transaction, place.flow, epoch, batch_id, attempt, allowed)

    def _keep_refused(
        self, name: str, epoch: int, batch_id: int, refused: Sequence[RefusedRow], count: int | None
    ) -> None:
        """Set aside what a sink has refused of a batch, in the place of what it has when the batch came before."""
        place = self._place
        if not refused and not refused_of_batch(place.folder, epoch, batch_id):
            return
        at = datetime.fromtimestamp(self._now(), UTC)
        with place.storing:
            self._refused[name, epoch, batch_id] = len(refused)
            total = sum(self._refused.values())
            share = int(place.policy.share * (self.rows + sum(self._waited.values()) + (count or 0)))
            if epoch >= 0 and total > max(FEW, share):
                reason = self._shown(refused[0])
                raise PipelineError("ROWS.TOO_MANY_REFUSED", flow=place.flow, name=name, count=total, reason=reason)
            self._guard.at(Failpoint.TO_SET_ASIDE)
            of_batch = OfBatch(place.identity, epoch, batch_id, place.update_id, at, name)
            rows = [FailingRow(one.row, self._shown(one), one.code, {}) for one in refused]
            keep_failing(place.folder, of_batch, rows, self._guard.fence)
        self._guard.at(Failpoint.QUARANTINED)
        if refused:
            number = f"{len(refused)} row{'' if len(refused) == 1 else 's'} of batch {batch_id}"
            message = f'flow "{place.flow}": sink "{name}" refuses {number}, set aside: {self._shown(refused[0])}'
            self._emit(Warned("ROWS.SET_ASIDE", message, place.flow, place.dataset))

    def _shown(self, refused: RefusedRow) -> str:
        """Why a row is refused, without what nobody else is to see."""
        return self._place.redact(refused.reason)[:_LONGEST_REASON]

    def _deliver(self, frame: DataFrame, batch_id: int) -> FlowCounts:
        """To a single sink: the rows are counted on their way."""
        ((name, sink),) = self._sinks.items()
        observation = Observation()
        observed = frame.observe(observation, F.count(F.lit(1)).alias(_ROWS))
        count = sink.deliver(observed, self._batch(name, batch_id))
        self._note(name, batch_id)
        if count is None:
            count = observed_number(observation, frame.sparkSession, _ROWS)
        if count is not None:
            return FlowCounts(rows_written=count)
        # The sink has had it before, or has looked at none of its rows.
        return FlowCounts(rows_written=frame.count(), recovered=True)

    def _deliver_to_all(self, frame: DataFrame, batch_id: int, due: Mapping[str, Sink]) -> FlowCounts:
        """To several sinks at a time, from one computation; what one of them has is not delivered to it again."""
        rows = frame.persist(StorageLevel.MEMORY_AND_DISK)
        errors: dict[str, BaseException] = {}

        def deliver(name: str, sink: Sink) -> None:
            try:
                sink.deliver(rows, self._batch(name, batch_id))
                self._note(name, batch_id)
            except BaseException as error:  # noqa: BLE001 - raised below, once the others are done
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
        self._raise(errors, batch_id)
        return counts

    def _note(self, name: str, batch_id: int) -> None:
        with self._noting:
            self._guard.fence()
            self._delivered[name] = batch_id
            note_delivered(self._place.folder, self._place.epoch, self._delivered)
        self._guard.at(Failpoint.NOTED)

    def _raise(self, errors: Mapping[str, BaseException], batch_id: int) -> None:
        """Say which sinks lack the batch that others have, and raise why the first of them does."""
        place = self._place
        for name in errors if len(self._sinks) > 1 else ():
            have = ", ".join(f'"{other}"' for other in self._sinks if other not in errors) or "no other"
            message = f'flow "{place.flow}": sink "{name}" has not taken batch {batch_id}; it is in {have}'
            self._emit(Warned("SINK.BEHIND", message, place.flow, place.dataset))
        for name in self._sinks:
            if name in errors:
                raise errors[name]
