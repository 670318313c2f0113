"""Folds events into metrics. Pure: the same events in the same order give the same values, in any process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.events.types import (
    OFFSETS_LOST,
    TERMINAL_UPDATE_STATES,
    BatchDone,
    DatasetDefined,
    Event,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    SinkDefined,
    StreamProgress,
    TableEvaluated,
    UpdateCreated,
    UpdateStateChanged,
    Warned,
)
from headrace.metrics import catalogue as all_metrics
from headrace.metrics import cost_metrics
from headrace.metrics.bottleneck import RecentPhases
from headrace.metrics.custom_values import CustomValues
from headrace.metrics.definitions import Definitions
from headrace.metrics.metric import Metric
from headrace.metrics.newest_batches import NewestBatches
from headrace.metrics.row_cost import RowCost
from headrace.metrics.samples import Samples
from headrace.metrics.unread_input import UnreadInput
from headrace.model.executor_time import ExecutorTime
from headrace.model.expectations import ExpectationCount
from headrace.model.outcome import ACTIVE_STATES, NOT_SELECTED, FlowState, SourceLag, UpdateState
from headrace.model.triggers import described_interval_s
from headrace.plan.inactive import INACTIVE

_LAG = (
    all_metrics.LAG_OFFSETS,
    all_metrics.LAG_FILES,
    all_metrics.LAG_ROWS,
    all_metrics.LAG_COMMITS,
    all_metrics.LAG_BYTES,
)
# From events of levels other than METRICS.
_STATES_OF_FLOWS = (all_metrics.FLOW_STATE, all_metrics.FLOW_START, all_metrics.TRIGGER_INTERVAL)
# From events of the level METRICS.
_GAUGES_OF_FLOWS = (
    all_metrics.LAST_BATCH,
    all_metrics.INPUT_RATE,
    all_metrics.PROCESS_RATE,
    *_LAG,
    all_metrics.STATE_BYTES,
    all_metrics.STATE_ROWS,
    all_metrics.NEWEST_EVENT_TIME,
    all_metrics.CUSTOM_VALUE,
)


@dataclass
class LatestUpdate:
    """The latest update of the events so far; its times are in seconds since 1970."""

    update_id: str
    cause: str
    started_at: float
    state: str = UpdateState.RUNNING.value
    # It updates all flows, so that a flow that it does not define has left the code.
    is_whole: bool = True

    @classmethod
    def from_json(cls, given: Any) -> LatestUpdate:
        """The update of ``vars``; raises KeyError, TypeError or ValueError for something else."""
        text = (str(given["update_id"]), str(given["cause"]))
        return cls(*text, float(given["started_at"]), str(given["state"]), bool(given["is_whole"]))


class EventFold:
    """The metrics of all events so far.

    Law: folding a log in one go, or in parts with :meth:`to_json` and :meth:`from_json` in between, gives the same;
    and so does folding its metrics up to a moment before its other events, which expire later. Then a flow that left
    the code and came back may have gauges from before.
    """

    def __init__(self) -> None:
        self.samples = Samples()
        self.latest: LatestUpdate | None = None
        self.newest_event_at: float | None = None
        # By flow, in seconds since 1970.
        self.watermarks: dict[str, float] = {}
        self.unread = UnreadInput()
        self.newest_batches = NewestBatches()
        self.definitions = Definitions()
        # By flow: where the time of its batches went since it started.
        self.phases: dict[str, RecentPhases] = {}
        # By flow: what rows cost it.
        self.costs: dict[str, RowCost] = {}
        # By flow, in seconds since 1970: the newest batch that wrote rows.
        self.last_rows_at: dict[str, float] = {}
        self._custom_values = CustomValues()
        # By flow, in seconds since 1970: the newest event that its gauges are from.
        self._measured: dict[str, float] = {}

    def apply(self, event: Event, at: datetime, update_id: str) -> None:
        """Add the next event."""
        moment = at.timestamp()
        self.newest_event_at = moment
        match event:
            case UpdateCreated() | UpdateStateChanged():
                self._apply_to_update(event, moment, update_id)
            case FlowDefined() | DatasetDefined() | SinkDefined():
                self.definitions.add(event)
                if isinstance(event, FlowDefined):
                    interval_s = described_interval_s(event.trigger or "")
                    self.samples.set(all_metrics.TRIGGER_INTERVAL, interval_s, event.flow)
            case FlowStateChanged():
                self._apply_state(event, moment)
            case BatchDone():
                self._apply_batch(event, moment, update_id)
            case TableEvaluated(flow=flow, dataset=dataset, expectations=expectations):
                self._count_expectations(dataset, flow, expectations)
            case FlowLagMetrics(flow=flow):
                self._measured[flow] = moment
                self._apply_lag(event, moment)
            case StreamProgress(flow=flow, progress=progress):
                self._measured[flow] = moment
                self.phases.setdefault(flow, RecentPhases(moment)).add(moment, progress.phases_ms)
                self.costs.setdefault(flow, RowCost()).add(moment, progress)
                self.unread.add_progress(flow, progress)
                self._apply_progress(event)
            case Warned():
                self._apply_warning(event, moment)
            case _:
                pass

    def to_json(self) -> dict[str, Any]:
        """Everything that the next events need."""
        latest = self.latest
        return {
            "samples": self.samples.to_json(),
            "latest": None if latest is None else vars(latest),
            "newest_event_at": self.newest_event_at,
            "watermarks": self.watermarks,
            **self.unread.to_json(),
            "newest_batches": self.newest_batches.to_json(),
            **self.definitions.to_json(),
            "phases": {flow: found.to_json() for flow, found in self.phases.items()},
            "costs": {flow: found.to_json() for flow, found in self.costs.items()},
            "measured": self._measured,
            "last_rows": self.last_rows_at,
            "recorded": self._custom_values.to_json(),
        }

    @classmethod
    def from_json(cls, given: Any) -> EventFold:
        """The fold of :meth:`to_json`.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        found = cls()
        found.samples = Samples.from_json(given["samples"])
        found.latest = None if given["latest"] is None else LatestUpdate.from_json(given["latest"])
        found.newest_event_at = _number_or_none(given["newest_event_at"])
        found.watermarks = {str(flow): float(at) for flow, at in given["watermarks"].items()}
        found.unread, found.definitions = UnreadInput.from_json(given), Definitions.from_json(given)
        found.newest_batches = NewestBatches.from_json(given["newest_batches"])
        found.phases = {str(flow): RecentPhases.from_json(phases) for flow, phases in given["phases"].items()}
        # Older versions had none of the following.
        found._measured = {str(flow): float(at) for flow, at in given.get("measured", {}).items()}
        found.costs = {str(flow): RowCost.from_json(cost) for flow, cost in given.get("costs", {}).items()}
        found.last_rows_at = {str(flow): float(at) for flow, at in given.get("last_rows", {}).items()}
        found._custom_values = CustomValues.from_json(given.get("recorded", {}))
        return found

    @property
    def running_update(self) -> str | None:
        """The latest update if it has recorded no end; None otherwise."""
        if self.latest is None or self.latest.state != UpdateState.RUNNING.value:
            return None
        return self.latest.update_id

    def lose_flows(self) -> None:
        """Set the state of flows that were active to LOST: the process of their update is gone."""
        active = {state.value for state in ACTIVE_STATES}
        lost = [labels for labels in self.samples.of(all_metrics.FLOW_STATE) if labels[-1] in active]
        self.samples.drop(all_metrics.FLOW_STATE, lambda labels: labels["state"] in active)
        for flow, dataset, _ in lost:
            self.samples.set(all_metrics.FLOW_STATE, 1, flow, dataset, FlowState.LOST.value)

    def _apply_to_update(self, event: UpdateCreated | UpdateStateChanged, moment: float, update_id: str) -> None:
        match event:
            case UpdateCreated(cause=cause):
                if self.latest is not None and self.running_update is not None:
                    # Its process recorded no end.
                    self.samples.add(all_metrics.UPDATES, 1, UpdateState.LOST.value, self.latest.cause)
                    self.lose_flows()
                self.latest = LatestUpdate(update_id, cause, moment, is_whole=event.is_whole)
                self.definitions.begin()
            case UpdateStateChanged(state=state):
                if self.latest is None or self.latest.update_id != update_id:
                    return
                self.latest.state = state.value
                if state in TERMINAL_UPDATE_STATES:
                    self._end_update(self.latest, moment)
                    self._custom_values.end_update(self.samples, update_id)
                elif self.latest.is_whole:
                    self._drop_flows_that_left(moment)

    def _end_update(self, latest: LatestUpdate, moment: float) -> None:
        self.samples.add(all_metrics.UPDATES, 1, latest.state, latest.cause)
        self.samples.drop(all_metrics.UPDATE_DURATION)
        self.samples.set(all_metrics.UPDATE_DURATION, round(moment - latest.started_at, 3), latest.cause)
        self.samples.set(all_metrics.UPDATE_END, moment, latest.state)

    def _drop_flows_that_left(self, moment: float) -> None:
        # Metrics expire before other events, so this may be an old update, after the metrics of younger ones.
        defined = self.definitions.new_flows
        kept = defined | {flow for flow, at in self._measured.items() if at > moment}
        for metric in _STATES_OF_FLOWS:
            self.samples.drop(metric, lambda labels: labels["flow"] not in defined)
        for metric in _GAUGES_OF_FLOWS:
            self.samples.drop(metric, lambda labels: labels["flow"] not in kept)
        self.watermarks = {flow: at for flow, at in self.watermarks.items() if flow in kept}
        self.unread.keep(kept.__contains__)
        self.definitions.forget_others()
        self.phases = {flow: found for flow, found in self.phases.items() if flow in kept}
        self.costs = {flow: found for flow, found in self.costs.items() if flow in kept}
        self.last_rows_at = {flow: at for flow, at in self.last_rows_at.items() if flow in kept}
        self._measured = {flow: at for flow, at in self._measured.items() if flow in kept}

    def _apply_state(self, event: FlowStateChanged, moment: float) -> None:
        if event.state is FlowState.EXCLUDED and (event.reason or NOT_SELECTED).startswith(NOT_SELECTED):
            # An update of other flows says nothing about this one.
            return
        if event.state in ACTIVE_STATES and not _has_started(self.samples, event.flow):
            # What was measured while it ran last does not hold once it runs again.
            self.samples.drop(all_metrics.FLOW_START, lambda labels: labels["flow"] == event.flow)
            if self._measured.get(event.flow, 0) <= moment:
                self.unread.forget_ages(event.flow)
                for metric in (all_metrics.INPUT_RATE, all_metrics.PROCESS_RATE):
                    self.samples.drop(metric, lambda labels: labels["flow"] == event.flow)
            if event.state is not FlowState.QUEUED:
                self.samples.set(all_metrics.FLOW_START, moment, event.flow)
        if event.state is FlowState.STARTING:
            self.phases[event.flow] = RecentPhases(moment)
        self.samples.drop(all_metrics.FLOW_STATE, lambda labels: labels["flow"] == event.flow)
        self.samples.set(all_metrics.FLOW_STATE, 1, event.flow, event.dataset, event.state.value)
        if event.state is FlowState.FAILED:
            code = str((event.error or {}).get("code", "")) or "UNKNOWN"
            self.samples.add(all_metrics.FLOW_FAILURES, 1, event.flow, code)
        elif event.state is FlowState.RETRYING:
            self.samples.add(all_metrics.FLOW_RETRIES, 1, event.flow)

    def _apply_batch(self, event: BatchDone, moment: float, update_id: str) -> None:
        if not self.newest_batches.add(event, update_id):
            return
        flow, dataset, counts = event.flow, event.dataset, event.counts
        self._measured[flow] = moment
        self.samples.add(all_metrics.BATCHES, 1, flow, dataset)
        self.samples.set(all_metrics.LAST_BATCH, moment, flow)
        if event.duration_ms is not None:
            self.samples.observe(all_metrics.BATCH_DURATION, event.duration_ms / 1000, flow)
        fates = {
            "written": counts.rows_written,
            "dropped": counts.rows_dropped,
            "quarantined": counts.rows_quarantined,
            "rescued": counts.rows_rescued,
            "upserted": counts.rows_upserted,
            "deleted": counts.rows_deleted,
        }
        for fate, rows in fates.items():
            if rows is not None:
                self.samples.add(all_metrics.ROWS, rows, flow, dataset, fate)
        if counts.rows_written:
            self.last_rows_at[flow] = moment
        if event.commit is not None:
            self.samples.add(all_metrics.OUTPUT_BYTES, event.commit.size, flow, dataset)
            self.samples.add(all_metrics.OUTPUT_FILES, event.commit.files, flow, dataset)
        _count_executor_time(self.samples, flow, event.executor_time)
        self._count_expectations(dataset, flow, counts.expectations)
        self._custom_values.add(self.samples, event, update_id)

    def _apply_warning(self, event: Warned, moment: float) -> None:
        if event.code in INACTIVE:
            self.definitions.add_inactive(event)
        if event.code != OFFSETS_LOST:
            return
        labels = (str(event.flow), str(event.facts.get("topic", "")))
        # Of a topic that was deleted, nobody knows how many there were.
        self.samples.add(all_metrics.LOST_OFFSETS, int(event.facts.get("offsets") or 1), *labels)
        self.samples.set(all_metrics.LAST_LOSS, moment, *labels)

    def _count_expectations(self, dataset: str, flow: str, counts: tuple[ExpectationCount, ...]) -> None:
        for count in counts:
            labels = (dataset, flow, count.name, count.action.value)
            self.samples.add(all_metrics.EXPECTATIONS, count.passed, *labels, "passed")
            self.samples.add(all_metrics.EXPECTATIONS, count.failed, *labels, "failed")

    def _apply_lag(self, event: FlowLagMetrics, moment: float) -> None:
        flow = event.flow
        for metric in _LAG:
            self.samples.drop(metric, lambda labels: labels["flow"] == flow)
        for partition in event.lag:
            self.samples.add(all_metrics.LAG_OFFSETS, partition.behind, flow, partition.topic)
        for backlog in event.backlog:
            self.samples.set(all_metrics.LAG_FILES, backlog.files, flow, backlog.source)
            self.samples.set(all_metrics.LAG_BYTES, backlog.size, flow, backlog.source)
        self.unread.add_lag(event, moment)
        for table in event.tables:
            self.samples.set(all_metrics.LAG_COMMITS, table.commits, flow, table.source)
            if table.rows is not None:
                self.samples.set(all_metrics.LAG_ROWS, table.rows, flow, table.source)
            if table.size is not None:
                self.samples.set(all_metrics.LAG_BYTES, table.size, flow, table.source)
        for source in event.sources:
            for metric, value in _known_lag(source).items():
                self.samples.set(metric, value, flow, source.source)

    def _apply_progress(self, event: StreamProgress) -> None:
        flow, progress, samples = event.flow, event.progress, self.samples
        samples.add(all_metrics.INPUT_ROWS, progress.input_rows, flow)
        samples.add(all_metrics.BUSY, progress.duration_ms / 1000, flow)
        _count_executor_time(samples, flow, progress.executor_time)
        for phase, duration_ms in progress.phases_ms.items():
            samples.add(all_metrics.PHASES, duration_ms / 1000, flow, phase)
        for metric, rate in (
            (all_metrics.INPUT_RATE, progress.input_rows_per_second),
            (all_metrics.PROCESS_RATE, progress.processed_rows_per_second),
        ):
            if rate is not None:
                samples.set(metric, rate, flow)
        if progress.watermark is not None:
            self.watermarks[flow] = progress.watermark.timestamp()
        if progress.newest_event_time is not None:
            samples.set(all_metrics.NEWEST_EVENT_TIME, progress.newest_event_time.timestamp(), flow)
        for metric in (all_metrics.STATE_BYTES, all_metrics.STATE_ROWS):
            samples.drop(metric, lambda labels: labels["flow"] == flow)
        for operator in progress.operators:
            # A flow may have several of a kind.
            samples.add(all_metrics.STATE_BYTES, operator.memory_bytes, flow, operator.kind)
            if operator.rows_total is not None:
                samples.add(all_metrics.STATE_ROWS, operator.rows_total, flow, operator.kind)
            changes = {
                "updated": operator.rows_updated,
                "removed": operator.rows_removed,
                "late": operator.rows_dropped,
                "duplicate": operator.duplicates_dropped,
            }
            for change, rows in changes.items():
                samples.add(all_metrics.STATE_CHANGES, rows, flow, operator.kind, change)


def _count_executor_time(samples: Samples, flow: str, time: ExecutorTime | None) -> None:
    if time is not None:
        samples.add(cost_metrics.EXECUTOR_RUN, time.run_ms / 1000, flow)
        samples.add(cost_metrics.EXECUTOR_CPU, time.cpu_ms / 1000, flow)


def _has_started(samples: Samples, flow: str) -> bool:
    """Whether a flow has started and not ended."""
    started = {state.value for state in ACTIVE_STATES - {FlowState.QUEUED}}
    return any(name == flow and state in started for name, _, state in samples.of(all_metrics.FLOW_STATE))


def _known_lag(source: SourceLag) -> dict[Metric, int]:
    values = {
        all_metrics.LAG_ROWS: source.rows,
        all_metrics.LAG_FILES: source.files,
        all_metrics.LAG_BYTES: source.size,
    }
    return {metric: value for metric, value in values.items() if value is not None}


def _number_or_none(value: Any) -> float | None:
    return None if value is None else float(value)
