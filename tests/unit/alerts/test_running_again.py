"""Alerts of pipelines that are started again and again: nightly, each quarter of an hour, at an interval, in parts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.alerts.alert import AlertState, advance
from headrace.alerts.conditions import Facts, findings
from headrace.alerts.history import History
from headrace.alerts.undecided import undecided
from headrace.events.types import (
    BatchDone,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.metrics import catalogue
from headrace.metrics.fold import EventFold
from headrace.model.alert_rules import rules
from headrace.model.outcome import FlowState, TableLag, UpdateState
from headrace.model.stream_progress import StreamBatches
from headrace.model.triggers import Trigger, TriggerKind, described_interval_s

START = datetime(2026, 11, 27, 2, tzinfo=UTC)
SLOW = StreamProgress(
    "orders", "orders", 0, "q", "r", StreamBatches(0, 1, START, 900, {}, 9, 2.0, 5.0, START, START, ())
)


class Pipeline:
    """A pipeline whose alerts are checked from its events."""

    def __init__(self):
        self.fold, self.history, self.alerts = EventFold(), History(), ()
        self.at, self.updates, self.batches = START, 0, 0

    def update(self, *events, trigger=None, selected=()):
        self.updates += 1
        self.batches = 0
        self.emit(UpdateCreated("USER_ACTION", {}, {"refresh": list(selected)} if selected else {}))
        self.emit(FlowDefined("orders", "orders", trigger=trigger), UpdateStateChanged(UpdateState.RUNNING), *events)

    def emit(self, *events):
        for event in events:
            self.fold.apply(event, self.at, str(self.updates))

    def batch(self, flow="orders"):
        self.batches += 1
        self.emit(BatchDone(flow, flow, 0, 100 * self.updates + self.batches))

    def lag(self, behind):
        self.emit(FlowLagMetrics("orders", "orders", tables=(TableLag("raw", 1, 30, 4096, self.at - behind),)))

    def checks(self, minutes):
        """The rules that are not pending, at a check each minute."""
        seen, fold = set(), self.fold
        for _ in range(minutes):
            self.at += timedelta(minutes=1)
            now, samples = self.at.timestamp(), fold.samples
            samples.drop(catalogue.LAG_SECONDS)
            for flow, sources in fold.unread.oldest.items():
                for source, oldest in sources.items():
                    samples.set(catalogue.LAG_SECONDS, 0 if oldest is None else now - oldest, flow, source)
            samples.drop(catalogue.UPDATE_STATE)
            samples.set(catalogue.UPDATE_STATE, 1, fold.latest.state)
            found = findings(Facts(samples, self.history, now))
            self.alerts = advance(self.alerts, found, now, None, undecided(self.alerts, samples))
            self.history = self.history.with_current(samples, now)
            seen |= {(alert.rule_id, alert.state) for alert in self.alerts if alert.state is not AlertState.PENDING}
        return seen


def state(name, reason=None, flow="orders"):
    return FlowStateChanged(flow, flow, name, reason)


STARTED = (state(FlowState.STARTING), state(FlowState.RUNNING))
ENDED = (state(FlowState.COMPLETED), UpdateStateChanged(UpdateState.COMPLETED))
FAILED = (state(FlowState.FAILED), UpdateStateChanged(UpdateState.FAILED))


@pytest.fixture
def pipeline():
    return Pipeline()


def one_night(pipeline):
    pipeline.update(*STARTED, SLOW)
    pipeline.batch()
    # A commit came while the flow ran: by the next night it is a day old.
    pipeline.lag(timedelta(minutes=5))
    pipeline.emit(*ENDED)


def test_what_was_measured_the_night_before_is_no_fault_of_a_long_nightly_update(pipeline):
    one_night(pipeline)
    assert pipeline.checks(60) == set()
    pipeline.at += timedelta(hours=22)
    pipeline.checks(60)
    pipeline.update(state(FlowState.QUEUED))
    assert pipeline.checks(60) == set()
    pipeline.emit(*STARTED)

    # A flow that commits nothing for longer is one that hangs.
    assert pipeline.checks(44) == set()
    assert pipeline.checks(3) == {("no_batches", AlertState.OPEN)}


def test_a_retry_is_no_new_start(pipeline):
    one_night(pipeline)
    pipeline.update(*STARTED)
    pipeline.lag(timedelta(hours=1))
    for _ in range(6):
        pipeline.checks(10)
        pipeline.emit(state(FlowState.RETRYING), *STARTED)

    assert {"lag_high", "no_batches"} <= {alert.rule_id for alert in pipeline.alerts if alert.state is AlertState.OPEN}


def test_a_flow_that_reads_every_hour_is_not_behind_between_two_batches(pipeline):
    pipeline.update(*STARTED, trigger=Trigger(TriggerKind.INTERVAL, 3600).describe())
    for _ in range(3):
        pipeline.batch()
        pipeline.emit(SLOW)
        pipeline.lag(timedelta(0))
        assert pipeline.checks(59) == set()

    assert ("lag_high", AlertState.OPEN) in pipeline.checks(40)


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [(Trigger(TriggerKind.INTERVAL, seconds), seconds) for seconds in (0, 0.5, 3600, 1e6)]
    + [(Trigger(TriggerKind.REAL_TIME, 300), 0), (Trigger(), 0)],
)
def test_the_interval_of_a_trigger_is_read_from_its_text(trigger, seconds):
    assert described_interval_s(trigger.describe()) == seconds


def test_a_pipeline_that_fails_each_quarter_of_an_hour_opens_its_alerts_once_until_it_works(pipeline):
    opened = {("flow_failed", AlertState.OPEN), ("update_failed", AlertState.OPEN)}
    pipeline.update()
    for _ in range(4):
        pipeline.update(*STARTED)
        # Another flow works.
        pipeline.batch("visits")
        pipeline.checks(10)
        pipeline.emit(*FAILED)
        assert pipeline.checks(5) == opened

    pipeline.update(*STARTED)
    assert pipeline.checks(10) == opened
    pipeline.batch()
    pipeline.checks(2)
    assert {alert.state for alert in pipeline.alerts} == {AlertState.RESOLVED}


def test_a_lost_update_is_resolved_by_the_first_batch_of_the_next_one(pipeline):
    pipeline.update()
    pipeline.fold.latest.state = UpdateState.LOST.value
    pipeline.checks(1)
    pipeline.update(*STARTED)
    assert pipeline.checks(9) == {("update_lost", AlertState.OPEN)}
    pipeline.batch()

    assert ("update_lost", AlertState.RESOLVED) in pipeline.checks(2)


def test_an_update_of_other_flows_does_not_resolve_a_failure(pipeline):
    pipeline.update(*STARTED, *FAILED)
    pipeline.update(state(FlowState.EXCLUDED, "not selected"), selected=["visits"])
    pipeline.batch("visits")
    pipeline.emit(UpdateStateChanged(UpdateState.COMPLETED))

    assert ("flow_failed", AlertState.OPEN) in pipeline.checks(3)
    assert ("flow_failed", AlertState.RESOLVED) not in pipeline.checks(3)


def test_a_silence_holds_for_an_alert_that_opens_again(pipeline):
    pipeline.update(*STARTED, *FAILED)
    pipeline.checks(1)
    until = pipeline.at.timestamp() + 3600
    pipeline.alerts = tuple(replace(alert, silenced_until=until, acknowledged_by="ann") for alert in pipeline.alerts)
    pipeline.update(*STARTED, *ENDED)
    pipeline.checks(3)
    pipeline.update(*STARTED, *FAILED)

    pipeline.checks(1)
    assert {(alert.state, alert.silenced_until, alert.acknowledged_by) for alert in pipeline.alerts} == {
        (AlertState.OPEN, until, "ann")
    }


def test_a_rule_that_was_switched_off_keeps_no_alert_open(pipeline):
    pipeline.update(*STARTED, *FAILED)
    pipeline.checks(1)
    pipeline.update(*STARTED)
    active = {name: rule for name, rule in rules().items() if name != "flow_failed"}
    kept = undecided(pipeline.alerts, pipeline.fold.samples)

    alerts = advance(pipeline.alerts, [], pipeline.at.timestamp() + 60, active, kept)
    assert {alert.state for alert in alerts if alert.rule_id == "flow_failed"} == {AlertState.RESOLVED}
