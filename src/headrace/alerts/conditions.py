"""The conditions of the rules: what is wrong now. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.alerts.history import History
from headrace.alerts.rules import Rule, rules
from headrace.metrics import catalogue
from headrace.metrics.catalogue import Metric
from headrace.metrics.samples import Samples
from headrace.model.outcome import ACTIVE_STATES, FlowState, UpdateState

_ACTIVE = frozenset(state.value for state in ACTIVE_STATES)
_BEHIND_S = 60


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


@dataclass(frozen=True)
class Facts:
    """What conditions look at: the current metrics, earlier ones, and the time in seconds since 1970."""

    samples: Samples
    history: History
    now: float


def findings(facts: Facts) -> list[Finding]:
    """Every condition that holds, in the order of the rules."""
    return [found for rule in rules().values() for found in CONDITIONS[rule.rule_id](rule, facts)]


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
        if seconds > rule.threshold and flow in active:
            yield Finding(rule, {"flow": flow, "source": source}, seconds)


def _throughput_low(rule: Rule, facts: Facts) -> Iterator[Finding]:
    samples = facts.samples
    active = _active_flows(samples)
    for (flow,), rate in samples.of(catalogue.PROCESS_RATE).items():
        # A stream that keeps up with little input is not slow.
        if rate < rule.threshold and flow in active and _is_behind(samples, flow, rate):
            yield Finding(rule, {"flow": flow}, rate)


def _active_flows(samples: Samples) -> set[str]:
    return {flow for flow, _, state in samples.of(catalogue.FLOW_STATE) if state in _ACTIVE}


def _is_behind(samples: Samples, flow: str, rate: float) -> bool:
    """Whether a stream has more than a minute of unread input."""
    unread = sum(rows for labels, rows in samples.of(catalogue.LAG_OFFSETS).items() if labels[0] == flow)
    oldest_s = max((age for labels, age in samples.of(catalogue.LAG_SECONDS).items() if labels[0] == flow), default=0)
    return oldest_s > _BEHIND_S or unread > _BEHIND_S * max(rate, 1)


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
    "flow_failed": _flow_failed,
    "flow_restarting": _increased(catalogue.FLOW_RETRIES),
    "lag_high": _lag_high,
    "throughput_low": _throughput_low,
    "expectation_rate": _expectation_rate,
    "quarantine_growing": _increased(catalogue.QUARANTINED),
    "rows_late": _rows_late,
    "disk_low": _disk_low,
}
