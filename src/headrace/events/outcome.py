"""Builds the outcome of an update from its events, for ``run``, ``status`` and the live display."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from headrace.events.levels import Json
from headrace.events.types import (
    TERMINAL_UPDATE_STATES,
    BatchDone,
    BatchRunning,
    Event,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    FlowStateMetrics,
    FlowTotal,
    StreamProgress,
    TableEvaluated,
    UpdateCreated,
    UpdateStateChanged,
    UpdateTotals,
    Warned,
)
from headrace.model.outcome import (
    ACTIVE_STATES,
    NOTICE_CODES,
    FlowCounts,
    FlowOutcome,
    FlowState,
    Outcome,
    UpdateState,
)

# After so many batches and reports, the totals of a continuous update are recorded: `status` reads what follows them.
TOTALS_AFTER_EVENTS = 500
COUNTED_IN_TOTALS = (BatchDone, BatchRunning, FlowLagMetrics, FlowStateMetrics, StreamProgress)


class Tally:
    """Adds up batches in the order in which they were recorded; ignores duplicates.

    The batch ids of a flow increase within an epoch, so it only stores the newest of each epoch: an update may run for
    months.
    """

    def __init__(self) -> None:
        self.totals: dict[str, FlowCounts] = {}
        self._newest: dict[tuple[str, int], int] = {}
        self._last: dict[str, tuple[int, int]] = {}
        self._datasets: dict[str, str] = {}
        # None if an older version did not record it.
        self._batches: dict[str, int | None] = {}

    def add(self, batch: BatchDone) -> None:
        """Count a batch; duplicates count once."""
        epoch = (batch.flow, batch.epoch)
        if batch.batch_id <= self._newest.get(epoch, -1):
            return
        self._newest[epoch] = batch.batch_id
        self._datasets[batch.flow] = batch.dataset
        self._last[batch.flow] = (batch.epoch, batch.batch_id)
        so_far = self._batches.get(batch.flow, 0)
        self._batches[batch.flow] = None if so_far is None else so_far + 1
        self.totals[batch.flow] = self.totals.get(batch.flow, FlowCounts()).plus(batch.counts)

    def add_table_evaluation(self, evaluation: TableEvaluated) -> None:
        """Count the results of a flow's table rules."""
        more = FlowCounts(expectations=evaluation.expectations)
        self.totals[evaluation.flow] = self.totals.get(evaluation.flow, FlowCounts()).plus(more)
        self._datasets[evaluation.flow] = evaluation.dataset
        self._last.setdefault(evaluation.flow, (0, -1))
        self._batches.setdefault(evaluation.flow, 0)

    def total(self) -> UpdateTotals:
        """The totals so far, as one event."""
        return UpdateTotals(
            tuple(
                FlowTotal(flow, self._datasets[flow], *self._last[flow], counts, self._batches[flow])
                for flow, counts in self.totals.items()
            )
        )

    def restore(self, totals: UpdateTotals) -> None:
        """Continue from recorded totals."""
        for found in totals.flows:
            self.totals[found.flow] = found.counts
            self._datasets[found.flow] = found.dataset
            self._last[found.flow] = (found.epoch, found.batch_id)
            self._newest[found.flow, found.epoch] = found.batch_id
            self._batches[found.flow] = found.batches


class OutcomeBuilder:
    """Builds the outcome of one update from its events.

    Law: applying the events of an update in order gives exactly the outcome that its own process returned.
    """

    def __init__(self, update_id: str) -> None:
        self.update_id = update_id
        self._cause = ""
        self._started_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._state = UpdateState.RUNNING
        self._error: dict[str, Any] | None = None
        self._flows: dict[str, FlowOutcome] = {}
        self._notices: list[Json] = []
        self._tally = Tally()

    def apply(self, event: Event, at: datetime) -> None:
        """Apply the next event."""
        self._started_at = self._started_at or at
        match event:
            case UpdateCreated(cause=cause):
                self._cause, self._started_at = cause, at
            case UpdateStateChanged(state=state, error=error):
                self._state, self._error = state, _copied(error)
                self._ended_at = at if state in TERMINAL_UPDATE_STATES else None
            # A view's query runs inside the flows that read it.
            case FlowDefined(flow=flow, dataset=dataset, mode=mode) if mode != "VIEW":
                self._flows.setdefault(flow, FlowOutcome(flow, dataset, FlowState.QUEUED))
            case FlowStateChanged():
                self._change_state(event)
            case BatchDone() | BatchRunning() | StreamProgress():
                self._apply_batch(event)
            case TableEvaluated():
                self._tally.add_table_evaluation(event)
            case FlowLagMetrics() | FlowStateMetrics():
                self._apply_metrics(event)
            case UpdateTotals():
                self._restore(event)
            case Warned(code=code, message=message) if code in NOTICE_CODES:
                self._notices.append({"code": code, "message": message, **event.facts})
            case _:
                pass

    def flow(self, name: str) -> FlowOutcome:
        """The outcome of one flow so far.

        Raises:
            KeyError: no event mentioned it.
        """
        return replace(self._flows[name], counts=self._tally.totals.get(name, FlowCounts()))

    def total(self) -> UpdateTotals:
        """The counts of all batches and the newest reports so far, as one event."""
        reports = (report for flow in self._flows.values() for report in _reports_of(flow))
        return replace(self._tally.total(), reports=tuple(reports))

    def running_flows(self) -> tuple[FlowOutcome, ...]:
        """The flows that have not ended."""
        return tuple(flow for flow in self._flows.values() if flow.state in ACTIVE_STATES)

    def outcome(self) -> Outcome | None:
        """The outcome of the update so far; None before the first event."""
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
            notices=tuple(self._notices),
        )

    def _restore(self, totals: UpdateTotals) -> None:
        self._tally.restore(totals)
        if totals.reports is None:
            return
        for found in totals.flows:
            if found.batch_id >= 0:
                self._flows.setdefault(found.flow, FlowOutcome(found.flow, found.dataset, FlowState.RUNNING))
        self._flows = {name: replace(flow, batch=None) for name, flow in self._flows.items()}
        for report in totals.reports:
            match report:
                case BatchRunning():
                    self._apply_batch(report)
                case _:
                    self._apply_metrics(report)

    def _apply_metrics(self, event: FlowLagMetrics | FlowStateMetrics) -> None:
        known = self._flows.get(event.flow) or FlowOutcome(event.flow, event.dataset, FlowState.RUNNING)
        match event:
            case FlowLagMetrics(lag=lag, backlog=backlog, tables=tables, sources=sources):
                self._flows[event.flow] = replace(known, lag=lag, backlog=backlog, table_lag=tables, source_lag=sources)
            case FlowStateMetrics(operators=operators, watermark=watermark):
                self._flows[event.flow] = replace(known, operators=operators, watermark=watermark)

    def _apply_batch(self, event: BatchDone | BatchRunning | StreamProgress) -> None:
        match event:
            case BatchDone(flow=flow, dataset=dataset):
                self._flows.setdefault(flow, FlowOutcome(flow, dataset, FlowState.RUNNING))
                self._tally.add(event)
                self._end_batch(flow, event.batch_id)
            case BatchRunning(flow=flow, batch=batch):
                if flow in self._flows:
                    self._flows[flow] = replace(self._flows[flow], batch=batch)
            case StreamProgress(flow=flow, progress=progress):
                # A batch without rows has no event of its own.
                self._end_batch(flow, progress.batch_id)

    def _end_batch(self, flow: str, batch_id: int) -> None:
        """Forget the progress of a batch that has ended."""
        known = self._flows.get(flow)
        if known is not None and known.batch is not None and (known.batch.batch_id or 0) <= batch_id:
            self._flows[flow] = replace(known, batch=None)

    def _change_state(self, event: FlowStateChanged) -> None:
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
            operators=known.operators if known else (),
            watermark=known.watermark if known else "",
            table_lag=known.table_lag if known else (),
            source_lag=known.source_lag if known else (),
        )


def _reports_of(flow: FlowOutcome) -> Iterator[FlowLagMetrics | FlowStateMetrics | BatchRunning]:
    """What is known of a flow's lag, state and long batch, as events."""
    if flow.lag or flow.backlog or flow.table_lag or flow.source_lag:
        yield FlowLagMetrics(flow.flow, flow.dataset, flow.lag, flow.backlog, flow.table_lag, flow.source_lag)
    if flow.operators or flow.watermark:
        yield FlowStateMetrics(flow.flow, flow.dataset, flow.operators, flow.watermark)
    if flow.batch is not None:
        yield BatchRunning(flow.flow, flow.dataset, flow.batch)


def _copied(error: Json | None) -> dict[str, Any] | None:
    return dict(error) if error is not None else None
