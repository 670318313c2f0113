"""The health of a dataset: the worst of its signals, by name."""

from __future__ import annotations

import pytest

from headrace.metrics import catalogue
from headrace.metrics.dataset_health import Health, Signal, dataset_health
from headrace.metrics.samples import Samples

NOW = 1_795_000_000.0
FLOWS = {"east": "orders", "west": "orders", "mail": "mail"}


def healthy():
    samples = Samples()
    for flow, state in (("east", "COMPLETED"), ("west", "RUNNING"), ("mail", "UP_TO_DATE")):
        samples.set(catalogue.FLOW_STATE, 1, flow, FLOWS[flow], state)
    samples.set(catalogue.LAG_SECONDS, 899, "west", "raw")
    # Of a flow that does not run.
    samples.set(catalogue.LAG_SECONDS, 90_000, "east", "raw")
    samples.set(catalogue.SINK_WAITING_BATCHES, 0, "mail", "mail")
    samples.set(catalogue.FRESHNESS_TARGET, 60, "orders", "at")
    samples.set(catalogue.NEWEST_ROW, NOW - 59, "orders", "at")
    samples.set(catalogue.QUARANTINED, 0, "orders")
    return samples


def state(samples, found):
    samples.drop(catalogue.FLOW_STATE, lambda labels: labels["flow"] == "west")
    if found is not None:
        samples.set(catalogue.FLOW_STATE, 1, "west", "orders", found)


def test_a_dataset_without_a_fault_is_ok():
    assert set(dataset_health(healthy(), FLOWS, NOW).values()) == {(Health.OK, ())}


@pytest.mark.parametrize(
    ("fault", "health", "signal"),
    [
        (lambda samples: state(samples, "FAILED"), Health.BAD, Signal.FLOW),
        (lambda samples: state(samples, "LOST"), Health.BAD, Signal.FLOW),
        (lambda samples: state(samples, "RETRYING"), Health.WARN, Signal.FLOW),
        (lambda samples: state(samples, None), Health.UNKNOWN, Signal.FLOW),
        (lambda samples: samples.set(catalogue.CHECKPOINT_PROBLEM, 1, "east", "X"), Health.BAD, Signal.CHECKPOINT),
        (lambda samples: samples.set(catalogue.NEWEST_ROW, NOW - 61, "orders", "at"), Health.BAD, Signal.FRESHNESS),
        (lambda samples: samples.set(catalogue.LAG_SECONDS, 901, "west", "raw"), Health.BAD, Signal.LAG),
        (lambda samples: samples.set(catalogue.SINK_WAITING_BATCHES, 2, "west", "out"), Health.BAD, Signal.SINK),
        (lambda samples: samples.set(catalogue.QUARANTINED, 1, "orders"), Health.WARN, Signal.QUARANTINE),
    ],
)
def test_each_signal_is_named_and_concerns_its_dataset_alone(fault, health, signal):
    samples = healthy()
    fault(samples)

    assert dataset_health(samples, FLOWS, NOW) == {"mail": (Health.OK, ()), "orders": (health, (signal,))}


def test_the_worst_signals_are_named_together_and_hide_milder_ones():
    samples = healthy()
    state(samples, "FAILED")
    samples.set(catalogue.CHECKPOINT_PROBLEM, 1, "west", "X")
    samples.set(catalogue.QUARANTINED, 1, "orders")

    assert dataset_health(samples, FLOWS, NOW)["orders"] == (Health.BAD, (Signal.FLOW, Signal.CHECKPOINT))
