"""The health of datasets: the worst of six signals, each by its name. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum

from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.model.alert_rules import rules
from headrace.model.outcome import ACTIVE_STATES, FlowState

_ACTIVE = frozenset(state.value for state in ACTIVE_STATES)


class Health(str, Enum):
    """How a dataset is, from best to worst."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARN = "warn"
    BAD = "bad"

    @property
    def rank(self) -> int:
        """Its place in this order."""
        return list(Health).index(self)


class Signal(str, Enum):
    """What the health of a dataset comes from."""

    FLOW = "flow"
    CHECKPOINT = "checkpoint"
    FRESHNESS = "freshness"
    LAG = "lag"
    SINK = "sink"
    QUARANTINE = "quarantine"


_OF_STATES = {
    FlowState.FAILED.value: Health.BAD,
    FlowState.LOST.value: Health.BAD,
    FlowState.RETRYING.value: Health.WARN,
    FlowState.SKIPPED.value: Health.WARN,
}


def dataset_health(
    samples: Samples, datasets: Mapping[str, str], now: float
) -> dict[str, tuple[Health, tuple[Signal, ...]]]:
    """The health of each dataset that has flows, and the signals that it comes from; none if it is ok.

    Args:
        samples: the other metrics, also those of the storage.
        datasets: the dataset of each flow.
        now: the time in seconds since 1970.
    """
    found: defaultdict[str, dict[Signal, Health]] = defaultdict(dict)
    for dataset, signal, health in [*_of_flows(samples, datasets), *_of_rows(samples, now)]:
        found[dataset][signal] = max(health, found[dataset].get(signal, Health.OK), key=lambda one: one.rank)
    return {dataset: _worst(found[dataset]) for dataset in sorted(set(datasets.values()))}


def _worst(signals: Mapping[Signal, Health]) -> tuple[Health, tuple[Signal, ...]]:
    worst = max(signals.values(), key=lambda one: one.rank, default=Health.OK)
    return worst, () if worst is Health.OK else tuple(signal for signal in Signal if signals.get(signal) is worst)


def _of_flows(samples: Samples, datasets: Mapping[str, str]) -> Iterable[tuple[str, Signal, Health]]:
    states = {flow: state for flow, _, state in samples.of(catalogue.FLOW_STATE)}
    for flow, dataset in datasets.items():
        known = _OF_STATES.get(states[flow], Health.OK) if flow in states else Health.UNKNOWN
        yield dataset, Signal.FLOW, known
    for flow, _ in samples.of(catalogue.CHECKPOINT_PROBLEM):
        if flow in datasets:
            yield datasets[flow], Signal.CHECKPOINT, Health.BAD
    intervals, limit_s = samples.of(catalogue.TRIGGER_INTERVAL), rules()["lag_high"].threshold
    for (flow, _), age_s in samples.of(catalogue.LAG_SECONDS).items():
        # A pipeline that runs once a night is not behind by day.
        if states.get(flow) in _ACTIVE and flow in datasets and age_s > limit_s + intervals.get((flow,), 0):
            yield datasets[flow], Signal.LAG, Health.BAD
    for (flow, _), batches in samples.of(catalogue.SINK_WAITING_BATCHES).items():
        if batches and flow in datasets:
            yield datasets[flow], Signal.SINK, Health.BAD


def _of_rows(samples: Samples, now: float) -> Iterable[tuple[str, Signal, Health]]:
    newest = samples.of(catalogue.NEWEST_ROW)
    for (dataset, column), target_s in samples.of(catalogue.FRESHNESS_TARGET).items():
        if abs(now - newest.get((dataset, column), now)) > target_s:
            yield dataset, Signal.FRESHNESS, Health.BAD
    for (dataset,), rows in samples.of(catalogue.QUARANTINED).items():
        if rows:
            yield dataset, Signal.QUARANTINE, Health.WARN
