"""From events to the outcome of an update: the one fold behind ``run``, ``status`` and the live display."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from headrace.events.types import (
    TERMINAL_UPDATE_STATES,
    BatchDone,
    Event,
    FlowBehind,
    FlowDefined,
    FlowKeeps,
    FlowMoved,
    FlowTotal,
    Json,
    TableJudged,
    Totaled,
    UpdateCreated,
    UpdateMoved,
)
from headrace.model.outcome import (
    GOING_ON,
    FlowCounts,
    FlowOutcome,
    FlowState,
    Outcome,
    UpdateState,
)


class Tally:
    """Adds up batches in the order in which they were recorded; one that was recorded before is passed over.

    A flow's batches have growing numbers within an epoch, so the newest of each epoch is all that is remembered: an
    update may go on for months.
    """

    def __init__(self) -> None:
        self.totals: dict[str, FlowCounts] = {}
        self._newest: dict[tuple[str, int], int] = {}
        self._last: dict[str, tuple[int, int]] = {}
        self._datasets: dict[str, str] = {}

    def add(self, batch: BatchDone) -> None:
        """Count a batch once, however often it was recorded."""
        epoch = (batch.flow, batch.epoch)
        if batch.batch_id <= self._newest.get(epoch, -1):
            return
        self._newest[epoch] = batch.batch_id
        self._datasets[batch.flow] = batch.dataset
        self._last[batch.flow] = (batch.epoch, batch.batch_id)
        self.totals[batch.flow] = self.totals.get(batch.flow, FlowCounts()).plus(batch.counts)

    def judge(self, judged: TableJudged) -> None:
        """Count what became of the rules about a flow's table as a whole."""
        more = FlowCounts(expectations=judged.expectations)
        self.totals[judged.flow] = self.totals.get(judged.flow, FlowCounts()).plus(more)
        self._datasets[judged.flow] = judged.dataset
        self._last.setdefault(judged.flow, (0, -1))

    def total(self) -> Totaled:
        """Everything added so far, as one event."""
        return Totaled(
            tuple(
                FlowTotal(flow, self._datasets[flow], *self._last[flow], counts) for flow, counts in self.totals.items()
            )
        )

    def take(self, totaled: Totaled) -> None:
        """Go on from what was added up before."""
        for found in totaled.flows:
            self.totals[found.flow] = found.counts
            self._datasets[found.flow] = found.dataset
            self._last[found.flow] = (found.epoch, found.batch_id)
            self._newest[found.flow, found.epoch] = found.batch_id


class Replay:
    """What is known of one update after the events applied so far.

    Law: applying the events of an update in order gives the outcome that its own process saw, bit for bit.
    """

    def __init__(self, update_id: str) -> None:
        self.update_id = update_id
        self._cause = ""
        self._started_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._state = UpdateState.RUNNING
        self._error: dict[str, Any] | None = None
        self._flows: dict[str, FlowOutcome] = {}
        self._tally = Tally()

    def apply(self, event: Event, at: datetime) -> None:
        """Take in the next event."""
        self._started_at = self._started_at or at
        match event:
            case UpdateCreated(cause=cause):
                self._cause, self._started_at = cause, at
            case UpdateMoved(state=state, error=error):
                self._state, self._error = state, _copied(error)
                self._ended_at = at if state in TERMINAL_UPDATE_STATES else None
            case FlowDefined(mode="VIEW"):
                # A view's query runs inside of the flows that read it.
                pass
            case FlowDefined(flow=flow, dataset=dataset):
                self._flows.setdefault(flow, FlowOutcome(flow, dataset, FlowState.QUEUED))
            case FlowMoved():
                self._move(event)
            case BatchDone():
                self._flows.setdefault(
                    event.flow,
                    FlowOutcome(event.flow, event.dataset, FlowState.RUNNING),
                )
                self._tally.add(event)
            case TableJudged():
                self._tally.judge(event)
            case FlowBehind() | FlowKeeps():
                self._look_at(event)
            case Totaled():
                self._tally.take(event)
            case _:
                pass

    def flow(self, name: str) -> FlowOutcome:
        """What is known of one flow.

        Raises:
            KeyError: no event spoke of it.
        """
        return replace(self._flows[name], counts=self._tally.totals.get(name, FlowCounts()))

    def total(self) -> Totaled:
        """The counts of all batches so far, as one event."""
        return self._tally.total()

    def going_on(self) -> tuple[FlowOutcome, ...]:
        """The flows that have not ended."""
        return tuple(flow for flow in self._flows.values() if flow.state in GOING_ON)

    def outcome(self) -> Outcome | None:
        """The update as far as it is known; None before the first event."""
        if self._started_at is None:
            return None
        return Outcome(
            update_id=self.update_id,
            state=self._state,
            cause=self._cause,
            started_at=self._started_at,
            ended_at=self._ended_at,
            flows=tuple(self.flow(name) for name in self._flows),
            error=self._error,
        )

    def _look_at(self, event: FlowBehind | FlowKeeps) -> None:
        known = self._flows.get(event.flow) or FlowOutcome(event.flow, event.dataset, FlowState.RUNNING)
        match event:
            case FlowBehind(lag=lag, backlog=backlog):
                self._flows[event.flow] = replace(known, lag=lag, backlog=backlog)
            case FlowKeeps(operators=operators, watermark=watermark):
                self._flows[event.flow] = replace(known, kept=operators, watermark=watermark)

    def _move(self, event: FlowMoved) -> None:
        known = self._flows.get(event.flow)
        self._flows[event.flow] = FlowOutcome(
            flow=event.flow,
            dataset=event.dataset,
            state=event.state,
            reason=event.reason,
            attempts=max(event.attempt, known.attempts if known else 0),
            duration_s=event.duration_s if event.duration_s is not None else (known.duration_s if known else 0.0),
            lag=known.lag if known else (),
            backlog=known.backlog if known else (),
            kept=known.kept if known else (),
            watermark=known.watermark if known else "",
        )


def _copied(error: Json | None) -> dict[str, Any] | None:
    return dict(error) if error is not None else None
