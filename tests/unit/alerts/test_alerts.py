"""Alerts: each rule fires on its fault alone, and an alert opens once and is resolved once."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.alerts.alert import AlertState, advance
from headrace.alerts.conditions import CONDITIONS, Facts, Finding, findings
from headrace.alerts.file_lock import locked
from headrace.alerts.history import History
from headrace.alerts.messages import Pipeline
from headrace.alerts.store import read_alerts
from headrace.errors import PipelineError
from headrace.metrics import catalogue, cost_metrics
from headrace.metrics.samples import Samples
from headrace.model.alert_rules import rules
from headrace.project.inspection.pipeline_alerts import Messaging, PipelineAlerts
from headrace.settings.alert_settings import AlertSettings, Channel, Webhook

NOW = 1_795_000_000.0


def healthy():
    """The metrics of a pipeline with nothing to complain of."""
    samples = Samples()
    samples.set(catalogue.UPDATE_STATE, 1, "COMPLETED")
    samples.set(catalogue.FLOW_STATE, 1, "orders", "orders", "COMPLETED")
    samples.set(catalogue.FLOW_RETRIES, 1, "orders")
    samples.set(catalogue.PROCESS_RATE, 5, "orders")
    samples.set(catalogue.BATCHES, 40, "orders", "orders")
    samples.set(catalogue.BUSY, 200, "orders")
    samples.set(catalogue.INPUT_ROWS, 9000, "orders")
    samples.set(catalogue.LAST_BATCH, NOW - 30, "orders")
    samples.set(catalogue.FLOW_START, NOW - 86_400, "orders")
    samples.set(catalogue.WATERMARK_DELAY, 600, "orders")
    samples.set(catalogue.STATE_BYTES, 0.9e9, "orders", "dedupe")
    samples.set(catalogue.TABLE_FILES, 900, "orders")
    samples.set(catalogue.TABLE_BYTES, 900e6, "orders")
    # A chain of streams nearly always has an unread commit.
    samples.set(catalogue.LAG_COMMITS, 1, "orders", "raw")
    samples.set(catalogue.LAG_SECONDS, 2, "orders", "raw")
    samples.set(catalogue.EXPECTATIONS, 990, "orders", "orders", "paid", "drop", "passed")
    samples.set(catalogue.EXPECTATIONS, 10, "orders", "orders", "paid", "drop", "failed")
    samples.set(catalogue.QUARANTINED, 500, "orders")
    samples.set(catalogue.STATE_CHANGES, 7, "orders", "dedupe", "late")
    samples.set(catalogue.FREE, 80e9)
    samples.set(catalogue.UPDATE_END, NOW - 700, "COMPLETED")
    # A table with a target of a day, a sink with nothing to wait for, and an hour that costs what hours cost.
    samples.set(catalogue.FRESHNESS_TARGET, 86_400, "orders", "ordered_at")
    samples.set(catalogue.NEWEST_ROW, NOW - 3600, "orders", "ordered_at")
    samples.set(catalogue.FLOW_STATE, 1, "mail", "mail", "RUNNING")
    samples.set(catalogue.FLOW_START, NOW - 86_400, "mail")
    samples.set(catalogue.LAST_BATCH, NOW - 30, "mail")
    samples.set(catalogue.LAG_COMMITS, 1, "mail", "orders")
    samples.set(catalogue.SINK_WAITING_BATCHES, 0, "mail", "mail")
    samples.set(catalogue.SINK_LAST_DELIVERY, NOW - 30, "mail", "mail")
    samples.set(cost_metrics.COST, 150, "mail")
    samples.set(cost_metrics.USUAL_COST, 100, "mail")
    # A loss of last week, and old files that are fewer than those of the table.
    samples.add(catalogue.LOST_OFFSETS, 7, "orders", "raw")
    samples.set(catalogue.LAST_LOSS, NOW - 7 * 86_400, "orders", "raw")
    samples.set(catalogue.UNREFERENCED, 1.1e9, "orders")
    return samples


def lost(samples):
    samples.drop(catalogue.UPDATE_STATE)
    samples.set(catalogue.UPDATE_STATE, 1, "LOST")


def failed(samples):
    samples.drop(catalogue.UPDATE_STATE)
    samples.set(catalogue.UPDATE_STATE, 1, "FAILED")


def flow_failed(samples):
    samples.drop(catalogue.FLOW_STATE, lambda labels: labels["flow"] == "orders")
    samples.set(catalogue.FLOW_STATE, 1, "orders", "orders", "FAILED")


def running(samples, lag_s):
    samples.drop(catalogue.FLOW_STATE, lambda labels: labels["flow"] == "orders")
    samples.set(catalogue.FLOW_STATE, 1, "orders", "orders", "RUNNING")
    samples.set(catalogue.LAG_SECONDS, lag_s, "orders", "raw")


def far_behind(samples):
    running(samples, 901)
    samples.set(catalogue.PROCESS_RATE, 5000, "orders")


def violated(samples):
    samples.add(catalogue.EXPECTATIONS, 95, "orders", "orders", "paid", "drop", "passed")
    samples.add(catalogue.EXPECTATIONS, 6, "orders", "orders", "paid", "drop", "failed")


def falls_behind(samples):
    running(samples, 303)
    samples.set(catalogue.PROCESS_RATE, 5000, "orders")


def stands_still(samples):
    running(samples, 2)
    samples.set(catalogue.LAST_BATCH, NOW - 901, "orders")


def slow_batches(samples):
    samples.add(catalogue.BATCHES, 2, "orders", "orders")
    samples.add(catalogue.BUSY, 602, "orders")


def silent_input(samples):
    running(samples, 2)
    samples.add(catalogue.INPUT_ROWS, 50, "orders")
    samples.set(catalogue.WATERMARK_DELAY, 1200, "orders")


def silent_sink(samples):
    samples.set(catalogue.SINK_LAST_DELIVERY, NOW - 901, "mail", "mail")


def sink_that_never_got_anything(samples):
    samples.drop(catalogue.SINK_LAST_DELIVERY)


def hanging_first_batch(samples):
    """Of a sink: a stream reports what it has not read after its first batch only."""
    for metric in (catalogue.LAG_COMMITS, catalogue.LAST_BATCH):
        samples.drop(metric, lambda labels: labels["flow"] == "mail")
    samples.drop(catalogue.SINK_LAST_DELIVERY)
    samples.set(catalogue.FLOW_START, NOW - 901, "mail")
    samples.set(catalogue.OPEN_BATCH, NOW - 901, "mail")


def hanging_first_batch_of_a_table(samples):
    running(samples, 0)
    for metric in (catalogue.LAG_COMMITS, catalogue.LAST_BATCH):
        samples.drop(metric, lambda labels: labels["flow"] == "orders")
    samples.set(catalogue.FLOW_START, NOW - 901, "orders")
    samples.set(catalogue.OPEN_BATCH, NOW - 901, "orders")


def many_files(samples):
    samples.set(catalogue.TABLE_FILES, 1001, "orders")


FAULTS = {
    "update_lost": lost,
    "update_failed": failed,
    "update_refused": lambda samples: samples.set(catalogue.UPDATE_REFUSED, 1, "GRAPH.UNKNOWN_DATASET"),
    "schema_blocked": lambda samples: samples.set(catalogue.UPDATE_REFUSED, 1, "TABLE.TYPE_CHANGED"),
    "checkpoint_bad": lambda samples: samples.set(catalogue.CHECKPOINT_PROBLEM, 1, "orders", "FLOW.CHECKPOINT_LOST"),
    "freshness": lambda samples: samples.set(catalogue.NEWEST_ROW, NOW - 86_401, "orders", "ordered_at"),
    "sink_waiting": lambda samples: samples.set(catalogue.SINK_WAITING_BATCHES, 3, "mail", "mail"),
    "sink_silent": silent_sink,
    "offsets_lost": lambda samples: samples.set(catalogue.LAST_LOSS, NOW - 60, "orders", "raw"),
    "cost_jump": lambda samples: samples.set(cost_metrics.COST, 201, "mail"),
    "unreferenced": lambda samples: samples.set(catalogue.UNREFERENCED, 1.9e9, "orders"),
    "flow_failed": flow_failed,
    "flow_restarting": lambda samples: samples.add(catalogue.FLOW_RETRIES, 3, "orders"),
    "lag_high": far_behind,
    "lag_growing": falls_behind,
    "no_batches": stands_still,
    "batch_slow": slow_batches,
    "watermark_stuck": silent_input,
    "state_growing": lambda samples: samples.set(catalogue.STATE_BYTES, 1.4e9, "orders", "dedupe"),
    "small_files": many_files,
    "throughput_low": lambda samples: running(samples, 61),
    "expectation_rate": violated,
    "quarantine_growing": lambda samples: samples.set(catalogue.QUARANTINED, 1500, "orders"),
    "rows_late": lambda samples: samples.add(catalogue.STATE_CHANGES, 1, "orders", "dedupe", "late"),
    "disk_low": lambda samples: samples.set(catalogue.FREE, 4e9),
}


def behind_already():
    samples = healthy()
    samples.set(catalogue.LAG_SECONDS, 890, "orders", "raw")
    return samples


# Faults that differ from a pipeline that was healthy ten minutes ago.
BEFORE = {"lag_high": behind_already}
SECONDS_BEFORE = {"state_growing": 3600}


def found_after(change, samples=None, seconds=600):
    """What the rules find some minutes after a check of a healthy pipeline."""
    samples = samples or healthy()
    history = History().with_current(samples, NOW - seconds)
    change(samples)
    return findings(Facts(samples, history, NOW))


def test_every_rule_has_a_condition_and_a_fault():
    assert set(rules()) == set(CONDITIONS) == set(FAULTS)


@pytest.mark.parametrize("rule_id", FAULTS)
def test_a_fault_is_found_by_its_own_rule_alone(rule_id):
    samples = BEFORE.get(rule_id, healthy)()

    (finding,) = found_after(FAULTS[rule_id], samples, SECONDS_BEFORE.get(rule_id, 600))

    assert finding.rule.rule_id == rule_id
    assert "{" not in finding.message


@pytest.mark.parametrize(
    ("rule_id", "fault"),
    [
        ("sink_silent", sink_that_never_got_anything),
        ("no_batches", hanging_first_batch_of_a_table),
        ("unreferenced", lambda samples: samples.set(catalogue.INACTIVE, 1.1e9, "old", "")),
        ("schema_blocked", lambda samples: samples.set(catalogue.UPDATE_REFUSED, 1, "FLOW.STATE_CHANGED")),
        # A row from the future makes no table fresh.
        ("freshness", lambda samples: samples.set(catalogue.NEWEST_ROW, NOW + 90_000, "orders", "ordered_at")),
    ],
)
def test_a_fault_of_another_kind_is_found_by_the_same_rule(rule_id, fault):
    assert [finding.rule.rule_id for finding in found_after(fault)] == [rule_id]


@pytest.mark.parametrize(
    ("change", "age_s"),
    [
        (lambda samples: samples.set(catalogue.GLOBAL_LAG, 599, "orders"), None),
        (lambda samples: samples.set(catalogue.GLOBAL_LAG, 601, "orders"), 601),
        # Nobody has looked for new input since the last update.
        (lambda samples: samples.set(catalogue.UPDATE_END, NOW - 700, "COMPLETED"), 700),
        (lambda samples: samples.set(catalogue.UPDATE_END, NOW - 500, "COMPLETED"), None),
        # A running stream whose sources say nothing of time.
        (lambda samples: samples.set(catalogue.FLOW_STATE, 1, "other", "orders", "RUNNING"), None),
    ],
)
def test_a_dataset_with_a_target_is_as_old_as_its_path_or_the_last_update(change, age_s):
    samples = healthy()
    change(samples)

    found = findings(Facts(samples, History(), NOW, freshness_s={"orders": 600}))

    assert [finding.value for finding in found] == ([] if age_s is None else [age_s])


def simulated_minute(samples, minute):
    """The next minute of a healthy day: an update each quarter of an hour, and a stream that runs all day."""
    now = NOW + 60 * minute
    # The stream has a batch each minute, keeps up, and has a peak at noon.
    peak = 1 if minute % 1440 < 660 or minute % 1440 > 780 else 20
    samples.set(catalogue.FLOW_STATE, 1, "clicks", "clicks", "RUNNING")
    samples.add(catalogue.BATCHES, 1, "clicks", "clicks")
    samples.add(catalogue.BUSY, 2 * peak, "clicks")
    samples.add(catalogue.INPUT_ROWS, 500 * peak, "clicks")
    samples.set(catalogue.PROCESS_RATE, 250, "clicks")
    samples.set(catalogue.LAST_BATCH, now - 10, "clicks")
    samples.set(catalogue.LAG_COMMITS, minute % 3, "clicks", "raw")
    samples.set(catalogue.LAG_SECONDS, minute % 3 * 20 * peak, "clicks", "raw")
    samples.set(catalogue.WATERMARK_DELAY, 600 + minute % 7, "clicks")
    samples.set(catalogue.STATE_BYTES, 1.1e9 + 1e5 * (minute % 60), "clicks", "dedupe")
    samples.set(catalogue.TABLE_FILES, 50 + minute % 250, "clicks")
    samples.set(catalogue.TABLE_BYTES, 1e9, "clicks")
    samples.set(catalogue.FREE, 80e9 - 1e6 * minute)
    # A sink gets rows each minute, and is down for four minutes at night; the newest row is up to an hour old.
    is_down = 120 <= minute % 1440 < 124
    samples.set(catalogue.SINK_WAITING_BATCHES, minute % 1440 - 119 if is_down else 0, "mail", "mail")
    # It has nothing to get for two hours in the evening; then a batch for it begins.
    is_quiet = 1200 <= minute % 1440 < 1320
    samples.set(catalogue.LAG_COMMITS, 0 if is_quiet else 1, "mail", "orders")
    samples.set(catalogue.LAG_SECONDS, 0 if is_quiet else 5, "mail", "orders")
    if not is_quiet and minute % 1440 != 1320:
        samples.set(catalogue.LAST_BATCH, now - 10, "mail")
        if not is_down:
            samples.set(catalogue.SINK_LAST_DELIVERY, now - 10, "mail", "mail")
    samples.set(catalogue.NEWEST_ROW, now - 60 * (minute % 60), "orders", "ordered_at")
    samples.set(cost_metrics.COST, 100 + minute % 90, "mail")
    samples.set(catalogue.UNREFERENCED, 1e6 * minute, "clicks")
    is_running = minute % 15 < 3
    for metric in (catalogue.UPDATE_STATE, catalogue.FLOW_STATE):
        samples.drop(metric, lambda labels: labels.get("flow") not in ("clicks", "mail"))
    samples.set(catalogue.UPDATE_STATE, 1, "RUNNING" if is_running else "COMPLETED")
    samples.set(catalogue.FLOW_STATE, 1, "orders", "orders", "RUNNING" if is_running else "COMPLETED")
    # What the other flow has not read is as old as its last update.
    samples.set(catalogue.LAG_SECONDS, 60 * (minute % 15), "orders", "raw")
    samples.set(catalogue.WATERMARK_DELAY, 600 + 60 * (minute % 15), "orders")
    if minute % 15 == 0:
        # One in a hundred rows violates a rule.
        samples.add(catalogue.EXPECTATIONS, 990, "orders", "orders", "paid", "drop", "passed")
        samples.add(catalogue.EXPECTATIONS, 10, "orders", "orders", "paid", "drop", "failed")
        samples.add(catalogue.BATCHES, 1, "orders", "orders")
        samples.add(catalogue.BUSY, 20, "orders")
        samples.add(catalogue.INPUT_ROWS, 1000, "orders")
        samples.set(catalogue.QUARANTINED, 500 + minute / 2, "orders")
        samples.set(catalogue.LAST_BATCH, now, "orders")
    return now


def test_a_healthy_pipeline_has_no_open_alert_over_a_simulated_day():
    samples, history, alerts, most = healthy(), History(), (), 0
    for minute in range(24 * 60):
        now = simulated_minute(samples, minute)
        alerts = advance(alerts, findings(Facts(samples, history, now)), now)
        assert [alert for alert in alerts if alert.state is not AlertState.PENDING] == []
        history = history.with_current(samples, now)
        most = max(most, len(history.points))
    assert most <= 62


def test_a_sink_whose_first_batch_hangs_is_silent_and_its_flow_stands_still():
    found = found_after(hanging_first_batch)

    assert [finding.rule.rule_id for finding in found] == ["no_batches", "sink_silent"]


def test_a_sink_that_had_nothing_to_get_for_an_hour_is_not_silent_when_rows_arrive():
    def rows_arrive(samples):
        samples.set(catalogue.SINK_LAST_DELIVERY, NOW - 3600, "mail", "mail")
        samples.set(catalogue.LAG_SECONDS, 2, "mail", "orders")
        samples.set(catalogue.OPEN_BATCH, NOW - 1, "mail")

    assert found_after(rows_arrive) == []


def test_a_pipeline_that_does_not_run_has_no_lag_to_complain_of():
    assert found_after(lambda samples: samples.set(catalogue.LAG_SECONDS, 40_000, "orders", "raw")) == []


def test_a_quarantine_that_was_emptied_has_not_grown():
    assert found_after(lambda samples: samples.set(catalogue.QUARANTINED, 1400, "orders"), with_quarantine(5000)) == []


def with_quarantine(rows):
    samples = healthy()
    samples.set(catalogue.QUARANTINED, rows, "orders")
    return samples


def test_counters_that_were_counted_anew_have_not_increased():
    def counted_anew(samples):
        samples.set(catalogue.STATE_CHANGES, 5, "orders", "dedupe", "late")

    assert found_after(counted_anew) == []


def test_nothing_is_known_to_have_increased_since_a_check_long_ago():
    history = History().with_current(healthy(), NOW - 3 * 3600)
    samples = healthy()
    samples.set(catalogue.QUARANTINED, 9000, "orders")

    assert findings(Facts(samples, history, NOW)) == []


def test_a_share_of_few_rows_is_no_finding():
    def few(samples):
        samples.add(catalogue.EXPECTATIONS, 20, "orders", "orders", "paid", "drop", "failed")

    assert found_after(few) == []


def finding(rule_id, **labels):
    return Finding(rules()[rule_id], labels, 1)


LAG = ("lag_high", {"flow": "orders", "source": "raw"})


def test_an_alert_opens_when_its_condition_has_held_long_enough():
    (pending,) = advance((), [finding(LAG[0], **LAG[1])], NOW)
    (still,) = advance((pending,), [finding(LAG[0], **LAG[1])], NOW + 299)
    (opened,) = advance((still,), [finding(LAG[0], **LAG[1])], NOW + 300)

    assert [one.state for one in (pending, still, opened)] == [AlertState.PENDING, AlertState.PENDING, AlertState.OPEN]
    assert advance((still,), [], NOW + 299) == ()


def test_an_open_alert_is_resolved_after_a_quiet_time_and_kept_for_a_day():
    (opened,) = advance((), [finding("update_failed")], NOW)
    (quiet,) = advance((opened,), [], NOW + 59)
    (resolved,) = advance((quiet,), [], NOW + 60)

    assert (quiet.state, resolved.state) == (AlertState.OPEN, AlertState.RESOLVED)
    assert advance((resolved,), [], NOW + 60 + 86_400) == (resolved,)
    assert advance((resolved,), [], NOW + 61 + 86_400) == ()
    (again,) = advance((resolved,), [finding("update_failed")], NOW + 100)
    assert (again.state, again.since) == (AlertState.OPEN, NOW + 100)


def failed_and_behind(alerts=(), now=NOW):
    lag = finding("lag_high", flow="orders", source="raw")
    other = finding("lag_high", flow="other", source="raw")
    flow = finding("flow_failed", flow="orders", dataset="orders")
    return advance(alerts, [finding("update_failed"), flow, lag, other], now)


def test_the_lag_of_a_failed_flow_is_hidden_and_nothing_else():
    alerts = failed_and_behind(failed_and_behind(), NOW + 300)

    assert {(alert.rule_id, alert.labels.get("flow")) for alert in alerts if not alert.is_hidden} == {
        ("update_failed", None),
        ("flow_failed", "orders"),
        ("lag_high", "other"),
    }


def test_a_failure_that_somebody_knows_of_hides_nothing():
    known = tuple(replace(alert, acknowledged_by="ann") for alert in failed_and_behind())

    assert not any(alert.is_hidden for alert in failed_and_behind(known, NOW + 300))


def test_times_of_a_clock_that_was_ahead_keep_no_alert_open():
    (ahead,) = advance((), [finding("update_failed")], NOW + 86_400)
    (seen,) = advance((ahead,), [], NOW)
    (resolved,) = advance((seen,), [], NOW + 60)

    assert (seen.last_true_at, resolved.state) == (NOW, AlertState.RESOLVED)


@given(st.lists(st.tuples(st.booleans(), st.floats(1, 400)), max_size=12))
@settings(max_examples=60)
def test_one_thing_has_at_most_one_alert_and_an_open_one_stays_open_while_its_condition_holds(steps):
    alerts, now = (), NOW
    for holds, seconds in steps:
        now += seconds
        before = {alert.key: alert for alert in alerts if alert.state is AlertState.OPEN}
        alerts = advance(alerts, [finding(LAG[0], **LAG[1])] if holds else [], now)
        assert len(alerts) <= 1
        if holds and before:
            assert [(alert.state, alert.since) for alert in alerts] == [
                (AlertState.OPEN, next(iter(before.values())).since)
            ]


@pytest.fixture
def alerts(tmp_path):
    return pipeline_alerts(tmp_path)


def pipeline_alerts(folder, settings=None, **patience):
    messaging = Messaging(settings or AlertSettings(), Pipeline("shop", "p", ""), lambda *_: None, str)
    return PipelineAlerts(folder / "alerts.json", folder / "outbox", lambda: NOW, messaging, **patience)


def failing():
    samples = healthy()
    failed(samples)
    return samples


def test_alerts_and_their_history_outlive_the_process(alerts, tmp_path):
    checked = alerts.check(failing())

    stored = read_alerts(tmp_path / "alerts.json")
    assert stored.alerts == checked == alerts.known()
    assert [point.at for point in stored.history.points] == [NOW]


def test_an_acknowledged_or_silenced_alert_needs_no_attention(alerts):
    (opened,) = alerts.check(failing())
    assert opened.needs_attention(NOW)

    silenced = alerts.silence(opened.key, 3600)
    assert (silenced.needs_attention(NOW), silenced.needs_attention(NOW + 3601)) == (False, True)
    alerts.acknowledge(opened.key, "ann")
    (known,) = alerts.check(failing())
    assert (known.acknowledged_by, known.needs_attention(NOW + 9999)) == ("ann", False)


def test_an_unknown_id_is_refused_with_the_known_ones(alerts):
    (opened,) = alerts.check(failing())

    with pytest.raises(PipelineError) as refused:
        alerts.acknowledge("nothing", "ann")

    assert refused.value.code == "ALERTS.UNKNOWN"
    assert opened.key in str(refused.value.detail)


@pytest.mark.parametrize("text", ["", "{", '{"format": 0}', '{"format": 1, "alerts": [{"since": "x"}], "history": []}'])
def test_a_damaged_file_is_as_none_and_the_next_check_replaces_it(alerts, tmp_path, text):
    (tmp_path / "alerts.json").write_text(text)

    assert alerts.known() == ()
    assert len(alerts.check(failing())) == 1
    assert json.loads((tmp_path / "alerts.json").read_text())["format"] == 1


def test_a_file_of_a_newer_version_is_named_and_stays(alerts, tmp_path):
    (tmp_path / "alerts.json").write_text('{"format": 2}')

    with pytest.raises(PipelineError) as refused:
        alerts.check(failing())

    assert refused.value.code == "ALERTS.NOT_READABLE"
    assert (tmp_path / "alerts.json").read_text() == '{"format": 2}'


def test_a_process_that_hangs_stops_a_check_with_an_error_and_not_forever(tmp_path):
    with locked(tmp_path / "alerts.json.lock", 0), pytest.raises(PipelineError) as refused:
        pipeline_alerts(tmp_path, patience_s=0.0).check(failing())

    assert refused.value.code == "ALERTS.NOT_WRITTEN"
    assert "nother process" in str(refused.value.detail)


def test_alerts_are_stored_before_the_messages_that_name_when_they_began(tmp_path):
    channel = Channel("ops", Webhook("http://127.0.0.1/"))
    (tmp_path / "outbox").write_text("a file in place of the folder")
    alerts = pipeline_alerts(tmp_path, AlertSettings(channels=(channel,)))

    with pytest.raises(PipelineError):
        alerts.check(failing())

    stored = read_alerts(tmp_path / "alerts.json")
    assert ([alert.since for alert in stored.alerts], stored.notices) == ([NOW], ())


def test_a_check_before_the_first_update_writes_nothing(tmp_path):
    assert pipeline_alerts(tmp_path / "missing").check(healthy()) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_is_named_and_stays(tmp_path):
    (tmp_path / "alerts.json").mkdir()

    with pytest.raises(PipelineError) as refused:
        pipeline_alerts(tmp_path).check(healthy())

    assert refused.value.code == "ALERTS.NOT_READABLE"


def _silence(folder: str, key: str, times: int) -> None:
    for number in range(times):
        pipeline_alerts(Path(folder)).silence(key, number)


def test_checks_and_changes_of_two_processes_lose_none(alerts, tmp_path):
    (opened,) = alerts.check(failing())
    other = multiprocessing.get_context("spawn").Process(target=_silence, args=(str(tmp_path), opened.key, 40))
    other.start()
    alerts.acknowledge(opened.key, "ann")
    while other.is_alive():
        alerts.check(failing())
        other.join(0)
    (known,) = alerts.check(failing())

    assert other.exitcode == 0
    assert (known.acknowledged_by, known.silenced_until) == ("ann", NOW + 39)
