"""The trace of an update: what it did, when and for how long, as spans. Pure: a fold over the events of the update."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from headrace.events.recorded import Recorded
from headrace.events.types import (
    TERMINAL_UPDATE_STATES,
    BatchDone,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.model.executor_time import ExecutorTime
from headrace.model.outcome import ACTIVE_STATES, FlowState, UpdateState
from headrace.model.stream_progress import BatchTiming, StreamBatches

# Trace viewers show a few thousand spans; a batch has up to eight.
NEWEST_BATCHES = 200
_STATE = "headrace.state"
_NONE: Mapping[str, int] = MappingProxyType({})
_RUNS = frozenset({FlowState.STARTING, FlowState.RUNNING, FlowState.IDLE})
_ACTIVE = frozenset(state.value for state in ACTIVE_STATES)


@dataclass(frozen=True)
class SpanFailure:
    """The error that a span ended with."""

    code: str
    message: str
    at: datetime


@dataclass(frozen=True)
class Span:
    """A part of an update: the update itself, an attempt of a flow, a batch, or a phase of a batch.

    Attributes:
        name: such as ``batch 12`` or ``add_batch``.
        start: when it began.
        end: when it ended; for what still runs, the time of the newest event.
        attributes: what else is known.
        children: the parts that it consists of.
        failure: why it failed; None if it did not.
    """

    name: str
    start: datetime
    end: datetime
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    children: tuple[Span, ...] = ()
    failure: SpanFailure | None = None

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True)
class Trace:
    """All spans of one update; the same events give the same ids, so that a trace can be pushed again."""

    update_id: str
    root: Span

    @property
    def is_running(self) -> bool:
        """Whether its events have no end."""
        return self.root.attributes[_STATE] == UpdateState.RUNNING.value

    def as_lost(self) -> Trace:
        """The trace of an update whose process is gone, although the events do not show it."""
        flows = tuple(
            _with_state(flow, FlowState.LOST.value) if flow.attributes[_STATE] in _ACTIVE else flow
            for flow in self.root.children
        )
        return replace(self, root=replace(_with_state(self.root, UpdateState.LOST.value), children=flows))

    @property
    def trace_id(self) -> int:
        """The id of the trace, a number of 128 bits."""
        return _number(self.update_id, 16)

    def spans(self) -> Iterator[tuple[int, int | None, Span]]:
        """Each span with its id, a number of 64 bits, and that of its parent; parents come first."""
        waiting: deque[tuple[str, int | None, Span]] = deque([(self.update_id, None, self.root)])
        while waiting:
            path, parent, span = waiting.popleft()
            own = _number(f"{path} {span.name} {span.start.isoformat()}", 8)
            yield own, parent, span
            waiting.extend((f"{path}/{number}", own, child) for number, child in enumerate(span.children))


def _with_state(span: Span, state: str) -> Span:
    return replace(span, attributes={**span.attributes, _STATE: state})


def _number(text: str, size: int) -> int:
    # An id must not be zero.
    return int.from_bytes(sha256(text.encode()).digest()[:size], "big") or 1


def trace_of(
    events: Iterable[Recorded], newest_batches: int = NEWEST_BATCHES, batches: Mapping[str, int] = _NONE
) -> Trace | None:
    """The trace of an update, from its events.

    Args:
        events: those of one update, oldest first.
        newest_batches: only so many batches of each flow, the newest.
        batches: how many each flow has recorded, if the events leave some out.

    Returns:
        The trace; None if the update is not in the events.
    """
    fold = _Fold(newest_batches, batches)
    for recorded in events:
        fold.apply(recorded)
    return fold.trace()


@dataclass
class _Attempt:
    """An attempt of a flow."""

    flow: str
    dataset: str
    start: datetime
    number: int
    end: datetime | None = None
    state: str = FlowState.STARTING.value
    failure: SpanFailure | None = None


class _Fold:
    def __init__(self, newest_batches: int, batches: Mapping[str, int]) -> None:
        self._newest = newest_batches
        self._recorded = batches
        self._update_id = ""
        self._created: UpdateCreated | None = None
        self._start: datetime | None = None
        self._end: datetime | None = None
        self._last: datetime | None = None
        self._state = UpdateState.RUNNING.value
        self._failure: SpanFailure | None = None
        self._attempts: list[_Attempt] = []
        # By flow: reports of streams; and what is known of batches, by epoch and number.
        self._reports: dict[str, deque[StreamProgress]] = {}
        self._batches: dict[str, dict[tuple[int, int], tuple[datetime, BatchDone]]] = {}
        self._dropped: dict[str, int] = {}

    def apply(self, recorded: Recorded) -> None:
        event, at = recorded.event, recorded.at
        self._last = at
        match event:
            case UpdateCreated():
                self._update_id, self._created, self._start = recorded.update_id, event, at
            case UpdateStateChanged(state=state, error=error):
                self._state, self._failure = state.value, _failure(error, at)
                self._end = at if state in TERMINAL_UPDATE_STATES else None
            case FlowStateChanged():
                self._change_state(event, at)
            case BatchDone(flow=flow):
                of_flow = self._batches.setdefault(flow, {})
                of_flow.setdefault((event.epoch, event.batch_id), (at, event))
                if len(of_flow) > self._newest:
                    del of_flow[next(iter(of_flow))]
                    self._dropped[flow] = self._dropped.get(flow, 0) + 1
            case StreamProgress(flow=flow, progress=progress) if progress.batches:
                self._reports.setdefault(flow, deque(maxlen=self._newest)).append(event)
            case _:
                pass

    def trace(self) -> Trace | None:
        if self._created is None or self._start is None or self._last is None:
            return None
        created = self._created
        attributes = {
            "headrace.update_id": self._update_id,
            _STATE: self._state,
            "headrace.cause": created.cause,
            "headrace.user": created.user,
            "headrace.version": created.version,
            "headrace.code_digest": created.code_digest,
            "vcs.ref.head.revision": created.git_commit,
        }
        end = self._end or self._last
        flows = tuple(self._attempt_span(attempt, end) for attempt in self._attempts)
        root = Span("update", self._start, end, _known(attributes), flows, self._failure)
        return Trace(self._update_id, root)

    def _change_state(self, event: FlowStateChanged, at: datetime) -> None:
        current = next((one for one in reversed(self._attempts) if one.flow == event.flow and one.end is None), None)
        if event.state in _RUNS and current is None:
            self._attempts.append(_Attempt(event.flow, event.dataset, at, event.attempt))
        elif current is not None:
            current.state, current.number = event.state.value, event.attempt
            if event.state not in ACTIVE_STATES or event.state is FlowState.RETRYING:
                current.end, current.failure = at, _failure(event.error, at)

    def _attempt_span(self, attempt: _Attempt, last: datetime) -> Span:
        end = attempt.end or last
        attributes = {
            **_subject(attempt.flow, attempt.dataset),
            _STATE: attempt.state,
            "headrace.attempt": attempt.number,
            "headrace.batches_left_out": self._left_out(attempt.flow),
        }
        batches = [
            span
            for span in sorted(self._batch_spans(attempt), key=lambda one: one.start)
            if attempt.start <= span.end and span.start <= end
        ]
        name = f"flow {attempt.flow}"
        return Span(name, attempt.start, end, _known(attributes), tuple(batches[-self._newest :]), attempt.failure)

    def _left_out(self, flow: str) -> int | None:
        known = len(self._batches.get(flow, ()))
        return max(self._recorded.get(flow, 0) - known, self._dropped.get(flow, 0)) or None

    def _batch_spans(self, attempt: _Attempt) -> Iterator[Span]:
        """The batches of a flow: those that its stream reported, and others that were recorded."""
        done = self._batches.get(attempt.flow, {})
        reported: set[tuple[int, int]] = set()
        for report in self._reports.get(attempt.flow, ()):
            progress = report.progress
            reported |= {(report.epoch, progress.batch_id - back) for back in range(progress.batches)}
            subject = _subject(attempt.flow, attempt.dataset) | {"headrace.epoch": report.epoch}
            for batch in progress.each:
                _, recorded = done.get((report.epoch, batch.batch_id), (None, None))
                of_report = progress.executor_time if progress.batches == 1 else None
                yield _stream_batch(batch, {**subject, **_facts(recorded, of_report)})
            if not progress.each:
                yield _several_batches(progress, subject)
        for (epoch, batch_id), (at, recorded) in done.items():
            if (epoch, batch_id) not in reported and recorded.duration_ms is not None:
                start = at - timedelta(milliseconds=recorded.duration_ms)
                subject = {**_subject(attempt.flow, attempt.dataset), "headrace.epoch": epoch}
                facts = {**subject, "headrace.batch_id": batch_id, **_facts(recorded, recorded.executor_time)}
                yield Span(f"batch {batch_id}", start, at, _known(facts))


def _stream_batch(batch: BatchTiming, facts: Mapping[str, Any]) -> Span:
    end = batch.started_at + timedelta(milliseconds=batch.duration_ms)
    attributes = {**facts, "headrace.batch_id": batch.batch_id, "headrace.input_rows": batch.input_rows}
    return Span(f"batch {batch.batch_id}", batch.started_at, end, _known(attributes), _phases(batch, end))


def _phases(batch: BatchTiming, end: datetime) -> tuple[Span, ...]:
    """The phases one after the other, as Spark runs them; it measures only how long they take."""
    spans, start = [], batch.started_at
    for phase, duration_ms in batch.phases_ms.items():
        until = min(start + timedelta(milliseconds=duration_ms), end)
        spans.append(Span(phase, start, until))
        start = until
    return tuple(spans)


def _several_batches(progress: StreamBatches, subject: Mapping[str, Any]) -> Span:
    """Batches that an older version reported as one: they end with the newest, and took so long together."""
    first = progress.batch_id - progress.batches + 1
    end = progress.started_at + timedelta(milliseconds=progress.duration_ms / progress.batches)
    start = end - timedelta(milliseconds=progress.duration_ms)
    merged = BatchTiming(progress.batch_id, start, progress.duration_ms, progress.phases_ms, progress.input_rows)
    facts = {**subject, "headrace.batches": progress.batches, **_executor_facts(progress.executor_time)}
    return replace(_stream_batch(merged, facts), name=f"batches {first} to {progress.batch_id}")


def _facts(done: BatchDone | None, time: ExecutorTime | None) -> dict[str, Any]:
    facts: dict[str, Any] = _executor_facts(time)
    if done is None:
        return facts
    counts = done.counts
    facts |= {
        "headrace.rows_written": counts.rows_written,
        "headrace.rows_dropped": counts.rows_dropped,
        "headrace.rows_quarantined": counts.rows_quarantined,
    }
    if done.commit is not None:
        facts |= {"headrace.table_version": done.commit.version, "headrace.output_bytes": done.commit.size}
    return facts


def _executor_facts(time: ExecutorTime | None) -> dict[str, Any]:
    return {} if time is None else {"headrace.executor_run_ms": time.run_ms, "headrace.executor_cpu_ms": time.cpu_ms}


def _subject(flow: str, dataset: str) -> dict[str, Any]:
    return {"flow": flow, "dataset": dataset}


def _failure(error: Mapping[str, Any] | None, at: datetime) -> SpanFailure | None:
    return None if not error else SpanFailure(str(error.get("code", "")), str(error.get("message", "")), at)


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
