"""The conditions of the rules: what is wrong now. Pure."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.alerts.history import History
from headrace.metrics import catalogue, cost_metrics
from headrace.metrics.metric import Metric
from headrace.metrics.samples import Samples
from headrace.model.alert_rules import Rule, rules
from headrace.model.outcome import ACTIVE_STATES, FlowState, UpdateState

_ACTIVE = frozenset(state.value for state in ACTIVE_STATES)
_BEHIND_S = 60
_SMALL_FILE_BYTES = 16 * 1024 * 1024
_MUCH_MORE = 1.5
_TIMES_THE_TABLE = 2
# Codes of problems that only a decision about stored rows or state solves, besides all about stored tables.
_OF_TABLES = "TABLE."
_DECISIONS = frozenset({"FLOW.STATE_CHANGED", "FLOW.MODE_CHANGED", "PLAN.DATA_LOSS"})
# Metrics are read some time before they are checked.
_CLOCK_DIFFERENCE_S = 10.0


@dataclass(frozen=True)
class Finding:
    """A condition that holds, for something that labels name; *value* is the measured value, if there is one."""

    rule: Rule
    labels: Mapping[str, str] = field(default_factory=dict)
    value: float = 0

    @property
    def message(self) -> str:
        """One line."""
        return self.rule.message.format(**self.labels, value=self.value)

    @property
    def first_step(self) -> str:
        """The command to begin with."""
        return self.rule.first_step.format(**{name: shlex.quote(label) for name, label in self.labels.items()})


@dataclass(frozen=True)
class Facts:
    """What conditions look at.

    Attributes:
        samples: the current metrics.
        history: earlier ones.
        now: the time in seconds since 1970.
        lag_limits_s: the threshold of lag by dataset, where it is not the rule's.
        freshness_s: how far behind its sources a dataset may be, by dataset.
    """

    samples: Samples
    history: History
    now: float
    lag_limits_s: Mapping[str, float] = field(default_factory=dict)
    freshness_s: Mapping[str, float] = field(default_factory=dict)


def findings(facts: Facts, active: Mapping[str, Rule] | None = None) -> list[Finding]:
    """Every condition that holds, in the order of the rules; *active* are those that are on, None for all."""
    checked = rules() if active is None else active
    return [found for rule in checked.values() for found in CONDITIONS[rule.rule_id](rule, facts)]


def _update_is(state: UpdateState) -> Callable[[Rule, Facts], Iterator[Finding]]:
    def condition(rule: Rule, facts: Facts) -> Iterator[Finding]:
        if (state.value,) in facts.samples.of(catalogue.UPDATE_STATE):
            yield Finding(rule)

    return condition


def _flow_failed(rule: Rule, facts: Facts) -> Iterator[Finding]:
    for flow, dataset, state in facts.samples.of(catalogue.FLOW_STATE):
        if state == FlowState.FAILED.value:
            yield Finding(rule, {"flow": flow, "dataset": dataset})


def _increased(metric: Metric, **wanted: str) -> Callable[[Rule, Facts], Iterator[Finding]]:
    """The increase of a metric, over the values of its other labels, has reached the threshold."""

    def condition(rule: Rule, facts: Facts) -> Iterator[Finding]:
        sums: defaultdict[str, float] = defaultdict(float)
        subject = metric.labels[0]
        for labels, increase in facts.history.increases(metric, facts.samples, facts.now, rule.window_s):
            if wanted.items() <= labels.items():
                sums[labels[subject]] += increase
        for name, increase in sums.items():
            if increase >= rule.threshold:
                yield Finding(rule, {subject: name}, increase)

    return condition


def _lag_high(rule: Rule, facts: Facts) -> Iterator[Finding]:
    # A pipeline that runs once a night is not behind by day.
    active = _active_flows(facts.samples)
    for (flow, source), seconds in facts.samples.of(catalogue.LAG_SECONDS).items():
        limit_s = facts.lag_limits_s.get(active[flow], rule.threshold) if flow in active else math.inf
        if seconds > limit_s + _interval_s(facts.samples, flow):
            yield Finding(rule, {"flow": flow, "source": source}, seconds)


def _lag_growing(rule: Rule, facts: Facts) -> Iterator[Finding]:
    active = _active_flows(facts.samples)
    before = facts.history.before(catalogue.LAG_SECONDS, facts.now, rule.window_s)
    for labels, seconds in facts.samples.of(catalogue.LAG_SECONDS).items():
        if before is None or labels[0] not in active or seconds <= rule.threshold or labels not in before.values:
            continue
        if _interval_s(facts.samples, labels[0]) >= rule.window_s:
            # Between two batches, the lag grows by the time that passes.
            continue
        # A stream that reads as much as arrives has a lag that goes up and down.
        if seconds - before.values[labels] >= before.age_s / 2:
            yield Finding(rule, dict(zip(catalogue.LAG_SECONDS.labels, labels, strict=True)), seconds)


def _throughput_low(rule: Rule, facts: Facts) -> Iterator[Finding]:
    samples = facts.samples
    active = _active_flows(samples)
    for (flow,), rate in samples.of(catalogue.PROCESS_RATE).items():
        # A stream that keeps up with little input is not slow.
        if rate < rule.threshold and flow in active and _is_behind(samples, flow, rate):
            yield Finding(rule, {"flow": flow}, rate)


def _no_batches(rule: Rule, facts: Facts) -> Iterator[Finding]:
    samples = facts.samples
    active = _active_flows(samples)
    batches = samples.of(catalogue.LAST_BATCH)
    # A flow whose first batch hangs has committed none.
    for (flow,) in samples.of(catalogue.FLOW_START):
        waited_s = _waited_s(facts, flow, batches.get((flow,), 0))
        if flow in active and _has_input(samples, flow) and waited_s > rule.threshold + _interval_s(samples, flow):
            yield Finding(rule, {"flow": flow}, waited_s)


def _sink_silent(rule: Rule, facts: Facts) -> Iterator[Finding]:
    samples = facts.samples
    active = _active_flows(samples)
    deliveries = samples.of(catalogue.SINK_LAST_DELIVERY)
    # Every sink of a flow has this metric, also one that got nothing yet.
    for flow, sink in samples.of(catalogue.SINK_WAITING_BATCHES):
        # After an hour without input, a sink has not been silent for an hour.
        waited_s = min(_waited_s(facts, flow, deliveries.get((flow, sink), 0)), _unread_for_s(facts, flow))
        if flow in active and _has_input(samples, flow) and waited_s > rule.threshold + _interval_s(samples, flow):
            yield Finding(rule, {"flow": flow, "sink": sink}, waited_s)


def _sink_waiting(rule: Rule, facts: Facts) -> Iterator[Finding]:
    for (flow, sink), batches in facts.samples.of(catalogue.SINK_WAITING_BATCHES).items():
        if batches > 0:
            yield Finding(rule, {"flow": flow, "sink": sink}, batches)


def _waited_s(facts: Facts, flow: str, since: float) -> float:
    """The time since something happened, or since the flow started; 0 if it has not: it may wait for others."""
    return facts.now - max(since, facts.samples.of(catalogue.FLOW_START).get((flow,), facts.now))


def _unread_for_s(facts: Facts, flow: str) -> float:
    """How long a flow has had input that it has not read, or not delivered; without limit if nobody knows."""
    samples = facts.samples
    known = [age_s for labels, age_s in samples.of(catalogue.LAG_SECONDS).items() if labels[0] == flow]
    known += [facts.now - at for at in [samples.of(catalogue.OPEN_BATCH).get((flow,))] if at is not None]
    return max(known, default=math.inf)


def _has_input(samples: Samples, flow: str) -> bool:
    # While the first batch since a start runs, a stream does not report what it has not read.
    return (flow,) in samples.of(catalogue.OPEN_BATCH) or any(
        labels[0] == flow and unread > 0
        for metric in (catalogue.LAG_OFFSETS, catalogue.LAG_FILES, catalogue.LAG_COMMITS)
        for labels, unread in samples.of(metric).items()
    )


def _freshness(rule: Rule, facts: Facts) -> Iterator[Finding]:
    ages_s: dict[str, float] = {}
    newest = facts.samples.of(catalogue.NEWEST_ROW)
    for (dataset, column), target_s in facts.samples.of(catalogue.FRESHNESS_TARGET).items():
        # As for the expectation: a time far in the future makes no table fresh.
        age_s = abs(facts.now - newest.get((dataset, column), facts.now))
        if age_s > target_s:
            ages_s[dataset] = max(age_s, ages_s.get(dataset, 0))
    for dataset, target_s in facts.freshness_s.items():
        age_s = _behind_s(facts, dataset)
        if age_s > target_s:
            ages_s[dataset] = max(age_s, ages_s.get(dataset, 0))
    for dataset, age_s in ages_s.items():
        yield Finding(rule, {"dataset": dataset}, age_s)


def _behind_s(facts: Facts, dataset: str) -> float:
    """How far a dataset may be behind its sources.

    If that is unknown between updates, nobody has looked for new input since the last one that was complete.
    """
    samples = facts.samples
    lag_s = samples.of(catalogue.GLOBAL_LAG).get((dataset,))
    if lag_s is not None:
        return lag_s
    completed_at = samples.of(catalogue.UPDATE_END).get((UpdateState.COMPLETED.value,))
    is_running = dataset in _active_flows(samples).values()
    return 0.0 if is_running or completed_at is None else facts.now - completed_at


def _offsets_lost(rule: Rule, facts: Facts) -> Iterator[Finding]:
    # By the time of the loss: a pipeline that runs once a night has no check an hour before.
    lost = facts.samples.of(catalogue.LOST_OFFSETS)
    for (flow, topic), at in facts.samples.of(catalogue.LAST_LOSS).items():
        if facts.now - at <= rule.window_s:
            yield Finding(rule, {"flow": flow, "topic": topic}, lost.get((flow, topic), 1))


def _update_refused(*, is_blocked: bool) -> Callable[[Rule, Facts], Iterator[Finding]]:
    def condition(rule: Rule, facts: Facts) -> Iterator[Finding]:
        for (code,), problems in facts.samples.of(catalogue.UPDATE_REFUSED).items():
            if (code.startswith(_OF_TABLES) or code in _DECISIONS) is is_blocked:
                yield Finding(rule, {"code": code}, problems)

    return condition


def _checkpoint_bad(rule: Rule, facts: Facts) -> Iterator[Finding]:
    for flow, code in facts.samples.of(catalogue.CHECKPOINT_PROBLEM):
        yield Finding(rule, {"flow": flow, "code": code})


def _unreferenced(rule: Rule, facts: Facts) -> Iterator[Finding]:
    sizes = facts.samples.of(catalogue.TABLE_BYTES)
    unused: defaultdict[str, float] = defaultdict(float)
    for (dataset,), size in facts.samples.of(catalogue.UNREFERENCED).items():
        if size > _TIMES_THE_TABLE * sizes.get((dataset,), 0):
            unused[dataset] += size
    for (dataset, _), size in facts.samples.of(catalogue.INACTIVE).items():
        unused[dataset] += size
    for dataset, size in unused.items():
        if size > rule.threshold:
            yield Finding(rule, {"dataset": dataset}, size)


def _cost_jump(rule: Rule, facts: Facts) -> Iterator[Finding]:
    usual = facts.samples.of(cost_metrics.USUAL_COST)
    for (flow,), cost in facts.samples.of(cost_metrics.COST).items():
        if (flow,) in usual and cost > rule.threshold * usual[flow,]:
            yield Finding(rule, {"flow": flow}, cost)


def _batch_slow(rule: Rule, facts: Facts) -> Iterator[Finding]:
    history, samples, now, window_s = facts.history, facts.samples, facts.now, rule.window_s
    batches: defaultdict[str, float] = defaultdict(float)
    for labels, increase in history.increases(catalogue.BATCHES, samples, now, window_s):
        batches[labels["flow"]] += increase
    for labels, busy_s in history.increases(catalogue.BUSY, samples, now, window_s):
        flow = labels["flow"]
        if batches[flow] and busy_s / batches[flow] > rule.threshold:
            yield Finding(rule, {"flow": flow}, busy_s / batches[flow])


def _watermark_stuck(rule: Rule, facts: Facts) -> Iterator[Finding]:
    before = facts.history.before(catalogue.WATERMARK_DELAY, facts.now, rule.window_s)
    active = _active_flows(facts.samples)
    increases = facts.history.increases(catalogue.INPUT_ROWS, facts.samples, facts.now, rule.window_s)
    reading = {labels["flow"] for labels, rows in increases if rows > 0}
    for labels, delay_s in facts.samples.of(catalogue.WATERMARK_DELAY).items():
        if before is None or labels not in before.values or labels[0] not in reading & active.keys():
            continue
        # The delay of a watermark that stands still grows by the time that passes.
        advanced_s = before.age_s - (delay_s - before.values[labels])
        if advanced_s < _CLOCK_DIFFERENCE_S:
            yield Finding(rule, {"flow": labels[0], "dataset": active[labels[0]]}, delay_s)


def _state_growing(rule: Rule, facts: Facts) -> Iterator[Finding]:
    before = facts.history.before(catalogue.STATE_BYTES, facts.now, rule.window_s)
    for labels, size in facts.samples.of(catalogue.STATE_BYTES).items():
        was = 0.0 if before is None else before.values.get(labels, 0)
        if was and size > rule.threshold and size > _MUCH_MORE * was:
            yield Finding(rule, dict(zip(catalogue.STATE_BYTES.labels, labels, strict=True)), size)


def _small_files(rule: Rule, facts: Facts) -> Iterator[Finding]:
    sizes = facts.samples.of(catalogue.TABLE_BYTES)
    for labels, count in facts.samples.of(catalogue.TABLE_FILES).items():
        if count > rule.threshold and sizes.get(labels, 0) / count < _SMALL_FILE_BYTES:
            yield Finding(rule, {"dataset": labels[0]}, count)


def _active_flows(samples: Samples) -> dict[str, str]:
    """The flows that run, and their datasets."""
    return {flow: dataset for flow, dataset, state in samples.of(catalogue.FLOW_STATE) if state in _ACTIVE}


def _interval_s(samples: Samples, flow: str) -> float:
    """The interval of the trigger of a flow, during which it reads nothing."""
    return samples.of(catalogue.TRIGGER_INTERVAL).get((flow,), 0)


def _is_behind(samples: Samples, flow: str, rate: float) -> bool:
    """Whether a stream has more than a minute of unread input, besides that of the interval of its trigger."""
    behind_s = _BEHIND_S + _interval_s(samples, flow)
    unread = sum(rows for labels, rows in samples.of(catalogue.LAG_OFFSETS).items() if labels[0] == flow)
    oldest_s = max((age for labels, age in samples.of(catalogue.LAG_SECONDS).items() if labels[0] == flow), default=0)
    return oldest_s > behind_s or unread > behind_s * max(rate, 1)


def _expectation_rate(rule: Rule, facts: Facts) -> Iterator[Finding]:
    rows: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(lambda: {"passed": 0, "failed": 0})
    for labels, increase in facts.history.increases(catalogue.EXPECTATIONS, facts.samples, facts.now, rule.window_s):
        rows[labels["dataset"], labels["expectation"]][labels["result"]] += increase
    for (dataset, expectation), counts in rows.items():
        total = counts["passed"] + counts["failed"]
        if total >= rule.least_rows and counts["failed"] / total > rule.threshold:
            yield Finding(rule, {"dataset": dataset, "expectation": expectation}, counts["failed"] / total)


def _disk_low(rule: Rule, facts: Facts) -> Iterator[Finding]:
    for free in facts.samples.of(catalogue.FREE).values():
        if free < rule.threshold:
            yield Finding(rule, {}, free)


def _rows_late(rule: Rule, facts: Facts) -> Iterator[Finding]:
    datasets = {flow: dataset for flow, dataset, _ in facts.samples.of(catalogue.FLOW_STATE)}
    for found in _increased(catalogue.STATE_CHANGES, change="late")(rule, facts):
        flow = found.labels["flow"]
        yield Finding(rule, {"flow": flow, "dataset": datasets.get(flow, flow)}, found.value)


CONDITIONS: Mapping[str, Callable[[Rule, Facts], Iterator[Finding]]] = {
    "update_lost": _update_is(UpdateState.LOST),
    "update_failed": _update_is(UpdateState.FAILED),
    "update_refused": _update_refused(is_blocked=False),
    "schema_blocked": _update_refused(is_blocked=True),
    "flow_failed": _flow_failed,
    "checkpoint_bad": _checkpoint_bad,
    "flow_restarting": _increased(catalogue.FLOW_RETRIES),
    "lag_high": _lag_high,
    "lag_growing": _lag_growing,
    "freshness": _freshness,
    "throughput_low": _throughput_low,
    "no_batches": _no_batches,
    "sink_waiting": _sink_waiting,
    "sink_silent": _sink_silent,
    "offsets_lost": _offsets_lost,
    "batch_slow": _batch_slow,
    "cost_jump": _cost_jump,
    "watermark_stuck": _watermark_stuck,
    "state_growing": _state_growing,
    "expectation_rate": _expectation_rate,
    "quarantine_growing": _increased(catalogue.QUARANTINED),
    "rows_late": _rows_late,
    "small_files": _small_files,
    "unreferenced": _unreferenced,
    "disk_low": _disk_low,
}
