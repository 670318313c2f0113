"""The verbs that operators call from cron, on a storage without a running update."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from prometheus_client.parser import text_string_to_metric_families
from tests.servers.receiver import running_receiver

from headrace.cli.main import call
from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import BatchDone, Event, FlowStateChanged, UpdateCreated, UpdateStateChanged
from headrace.model.outcome import FlowState, UpdateState

FAILED = FlowStateChanged("orders", "orders", FlowState.FAILED, error={"code": "FLOW.FAILED", "message": "it broke"})


@pytest.fixture
def shop(tmp_path, monkeypatch):
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    (tmp_path / "transformations").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(shop: Path, *events: Event) -> None:
    path = str(shop / "storage" / "system" / "events")
    origin = Origin("p", "shop", "u")
    with EventLog(path, origin=origin, clock=lambda: datetime.now(UTC), new_id=lambda: str(uuid.uuid4())) as log:
        for event in (UpdateCreated("USER_ACTION"), *events):
            log.emit(event)


def said(capsys, *words: str) -> tuple[int, str]:
    code = call(list(words))
    return code, capsys.readouterr().out


def values(text: str, name: str) -> list[dict[str, str]]:
    families = text_string_to_metric_families(text)
    return [sample.labels for family in families for sample in family.samples if sample.name == name]


def test_metrics_of_a_killed_update_say_that_it_and_its_flows_are_lost(shop, capsys):
    recorded(shop, FlowStateChanged("orders", "orders", FlowState.RUNNING))

    code, text = said(capsys, "metrics")

    assert code == 0
    assert values(text, "headrace_update_state") == [{"pipeline": "shop", "state": "LOST"}]
    assert [labels["state"] for labels in values(text, "headrace_flow_state")] == ["LOST"]


def test_metrics_are_the_same_when_only_newer_events_are_read(shop, capsys):
    recorded(shop, FAILED, UpdateStateChanged(UpdateState.FAILED))
    code, first = said(capsys, "metrics", "--output", "json")
    assert (shop / "storage" / "system" / "metrics.json").is_file()

    _, again = said(capsys, "metrics", "--output", "json")

    unstable = {"headrace.storage.free"}
    shown = [[one for one in json.loads(text) if one["name"] not in unstable] for text in (first, again)]
    assert (code, shown[0]) == (0, shown[1])


def test_metrics_in_json_are_the_same_on_the_screen_and_in_a_file(shop, capsys):
    recorded(shop, BatchDone("orders", "orders", 0, 0, duration_ms=400))

    _, text = said(capsys, "metrics", "--format", "json", "--no-tables")
    said(capsys, "metrics", "--format", "json", "--no-tables", "--file", "shop.json")

    shown, written = json.loads(text), json.loads((shop / "shop.json").read_text())
    (duration,) = (one for one in shown if one["name"] == "headrace.flow.batch.duration")
    assert (duration["value"], duration["sum"], duration["buckets"]["0.5"]) == (1, 0.4, 1)
    assert {one["name"] for one in shown} == {one["name"] for one in written}


def test_a_file_for_a_collector_is_replaced_and_an_impossible_one_named(shop, capsys):
    recorded(shop)

    assert said(capsys, "metrics", "--file", "shop.prom") == (0, "written to shop.prom\n")
    assert values((shop / "shop.prom").read_text(), "headrace_build_info")
    code, text = said(capsys, "metrics", "--file", "missing/shop.prom", "--output", "json")
    assert (code, json.loads(text)["problems"][0]["code"]) == (1, "METRICS.NOT_WRITTEN")


def test_the_trace_of_a_killed_update_shows_where_its_time_went(shop, capsys):
    running = FlowStateChanged("orders", "orders", FlowState.STARTING)
    recorded(shop, running, BatchDone("orders", "orders", 0, 3, duration_ms=60_000))

    code, text = said(capsys, "trace", "u")
    _, spans = said(capsys, "trace", "--output", "json")

    first, _, _, flow = text.splitlines()
    assert (code, first.split()[:3]) == (0, ["update", "u", "LOST"])
    assert flow.split() == ["orders", "LOST", "0.0", "1", "60.0", "batch", "3:", "60.0", "s"]
    assert [span["name"] for span in json.loads(spans)] == ["update", "flow orders", "batch 3"]


def test_a_trace_of_no_update_says_so(shop, capsys):
    assert said(capsys, "trace") == (0, "no update yet\n")
    recorded(shop)

    assert call(["trace", "other"]) == 2
    assert "TRACE.NO_UPDATE" in capsys.readouterr().err


def test_a_damaged_table_does_not_hide_the_metrics_of_the_others(shop, capsys):
    recorded(shop)
    for name in ("torn", "torn_quarantine"):
        log = shop / "storage" / "tables" / "default" / name / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020}.json").write_text("{")

    code, text = said(capsys, "metrics")

    assert code == 0
    assert values(text, "headrace_update_state")


def test_a_table_without_quarantined_rows_has_none_so_that_the_first_ones_are_an_increase(shop, capsys):
    recorded(shop)
    write_deltalake(str(shop / "storage" / "tables" / "default" / "orders"), pa.table({"id": [1]}))

    _, text = said(capsys, "metrics")

    assert [labels["dataset"] for labels in values(text, "headrace_quarantine_rows")] == ["orders"]


def test_an_open_alert_fails_the_check_until_somebody_knows_of_it(shop, capsys):
    recorded(shop, FAILED, UpdateStateChanged(UpdateState.FAILED))

    code, text = said(capsys, "alerts", "check")
    ids = re.findall(r"id (\w+)", text)
    masked = re.sub(r"id \w+, since \S+ \S+ UTC", "id ID, since TIME", text)
    known = [said(capsys, "alerts", "ack", one, "--as", "ann") for one in ids]

    assert code == 1
    assert sorted(masked.strip().split("\n\n")) == [
        'bad[flow_failed]: flow "orders" failed\n  id ID, since TIME\n  hint: headrace status',
        "bad[update_failed]: the latest update failed\n  id ID, since TIME\n  hint: headrace status",
    ]
    assert [found[0] for found in known] == [0, 0]
    assert said(capsys, "alerts", "check")[0] == 0
    assert said(capsys, "alerts", "list")[1].count("acknowledged by ann") == 2


def test_a_pipeline_before_its_first_update_has_no_alert(shop, capsys):
    assert said(capsys, "alerts", "check") == (0, "no alerts\n")
    assert said(capsys, "alerts", "list", "--output", "json") == (0, "[]\n")


@pytest.mark.parametrize("hours", ["inf", "nan", "1e8", "-1"])
def test_a_silence_without_an_end_is_refused(shop, capsys, hours):
    recorded(shop, UpdateStateChanged(UpdateState.FAILED))
    _, text = said(capsys, "alerts", "check", "--output", "json")

    assert said(capsys, "alerts", "silence", json.loads(text)[0]["id"], "--hours", hours)[0] == 2
    assert said(capsys, "alerts", "list")[0] == 0


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


@pytest.fixture
def told(shop, receiver, monkeypatch):
    """A shop whose alerts go to the receiver, whose URL is a secret."""
    monkeypatch.setenv("HEADRACE_SECRET_ALERTS_URL", receiver.url)
    text = 'name: shop\nalerts:\n  deliver:\n    ops: {webhook: "${secret:alerts/url}"}\n'
    (shop / "pipeline.yml").write_text(text)
    return shop


def test_a_check_sends_what_opens_as_one_message_once_and_what_ends_later(told, receiver, capsys):
    recorded(told, FAILED, UpdateStateChanged(UpdateState.FAILED))

    checks = [said(capsys, "alerts", "check")[0] for _ in range(2)]

    (request,) = receiver.requests
    assert checks == [1, 1]
    assert {one["labels"]["alertname"] for one in request.rows[0]["alerts"]} == {"flow_failed", "update_failed"}
    assert said(capsys, "alerts", "list")[1].count("bad[") == 2


def test_a_check_while_the_receiver_is_down_says_so_and_the_list_shows_what_waits(told, receiver, capsys):
    receiver.answer = lambda _request, _number: 503
    recorded(told, UpdateStateChanged(UpdateState.FAILED))

    code, text = said(capsys, "alerts", "check")
    _, shown = said(capsys, "alerts", "list")

    assert code == 1
    assert 'a message for channel "ops" is sent again by the next check: status 503' in text
    assert 'a message for channel "ops" waits: [shop] bad: the latest update failed' in shown
    assert receiver.url not in text + shown
    assert len(list((told / "storage" / "system" / "outbox").glob("*.json"))) == 1


def test_a_test_message_shows_what_each_channel_answers(told, receiver, capsys):
    accepted = said(capsys, "alerts", "test")
    receiver.answer = lambda _request, _number: 404
    refused = said(capsys, "alerts", "test", "ops", "--output", "json")

    assert accepted == (0, "accepted ops: accepted, status 200\n")
    assert (refused[0], json.loads(refused[1])[0]["verdict"]) == (1, "refused")
    assert [row["kind"] for request in receiver.requests for row in request.rows] == ["test", "test"]


def test_a_test_without_channels_or_with_an_unknown_one_is_refused(shop, told, capsys):
    unknown = said(capsys, "alerts", "test", "opps", "--output", "json")
    (shop / "pipeline.yml").write_text("name: shop\n")
    without = said(capsys, "alerts", "test", "--output", "json")

    codes = [json.loads(text)["problems"][0]["code"] for _, text in (unknown, without)]
    assert codes == ["ALERTS.UNKNOWN_CHANNEL", "ALERTS.NO_CHANNEL"]


def test_rules_are_exported_with_the_values_of_the_settings(shop, capsys):
    (shop / "pipeline.yml").write_text("name: shop\nalerts: {rules: {disk_low: off, lag_high: {threshold: 7}}}\n")

    code, text = said(capsys, "alerts", "export", "--format", "prometheus")

    (group,) = yaml.safe_load(text)["groups"]
    found = {rule["alert"]: rule["expr"] for rule in group["rules"]}
    assert (code, "disk_low" in found) == (0, False)
    assert 'headrace_flow_lag_seconds{pipeline="shop"} > on (pipeline, flow) group_left () (7 + ' in found["lag_high"]


def test_a_rule_that_is_off_finds_nothing(shop, capsys):
    (shop / "pipeline.yml").write_text("name: shop\nalerts: {rules: {flow_failed: off, update_failed: off}}\n")
    recorded(shop, FAILED, UpdateStateChanged(UpdateState.FAILED))

    assert said(capsys, "alerts", "check") == (0, "no alerts\n")
