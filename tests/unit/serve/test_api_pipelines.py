"""What the API has of whole pipelines: past graphs, chosen events, and the alerts and metrics of all of them."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.serve.conftest import Clock, Shop, definitions, new_shop, state
from tests.unit.serve.test_api import P, matches

from headrace.alerts.alert import Alert, AlertState
from headrace.alerts.store import StoredAlerts, write_alerts
from headrace.events.types import DatasetDefined, FlowDefined, UpdateStateChanged
from headrace.model.alert_rules import Severity
from headrace.model.datasets import Kind
from headrace.model.outcome import FlowState, UpdateState
from headrace.serve.roles import Role
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile

PAST = f"{P}/graph?update=aaaa1111"


def graph(browser, path):
    answer = browser.call(path)
    assert answer.status == 200, answer.text
    matches("Graph", answer.json)
    return answer.json


def nodes(found):
    return {node["name"]: node["state"] for node in found["nodes"] if not node["is_source"]}


def monitoring(shop, file):
    settings = load_settings(shop.root / "pipeline.yml", environ={})
    return Path(settings.layout.monitoring(file))


def alert(message, severity=Severity.WARN, since=0.0):
    return Alert("flow_failed", severity, {"flow": message}, message, "headrace status", AlertState.OPEN, since, since)


def samples(text):
    """The values by metric and pipeline, of metrics with no other label."""
    families = text_string_to_metric_families(text)
    return {
        (one.name, one.labels["pipeline"]): one.value
        for family in families
        for one in family.samples
        if set(one.labels) == {"pipeline"}
    }


def test_a_past_graph_has_the_definitions_and_the_states_of_its_update(busy_shop, served):
    newer = [DatasetDefined("refunds", Kind.STREAMING_TABLE), FlowDefined("refunds", "refunds", ("orders",))]
    busy_shop.update("cccc3333-0000", *definitions(), *newer, UpdateStateChanged(UpdateState.COMPLETED))
    browser = served(busy_shop).sign_in()

    past, now = graph(browser, PAST), graph(browser, f"{P}/graph")

    assert (past["update_id"], past["as_of"], now["update_id"]) == ("aaaa1111-0000", "2026-11-20T12:00:00Z", None)
    assert nodes(past) == {"orders": "COMPLETED", "revenue": "COMPLETED", "shop_out": "QUEUED"}
    assert "refunds" in nodes(now)
    assert {node["health"] for node in past["nodes"] if not node["is_source"]} == {"unknown"}
    assert nodes(graph(browser, f"{P}/graph?update=bbbb2222"))["revenue"] == "FAILED"


def test_an_update_of_some_datasets_sees_the_graph_of_the_updates_before(busy_shop, served):
    orders = replace(definitions()[0], comment="changed")
    selections = {"refresh": ["orders"]}
    busy_shop.update("cccc3333-0000", orders, UpdateStateChanged(UpdateState.COMPLETED), selections=selections)

    found = graph(served(busy_shop).sign_in(), f"{P}/graph?update=cccc3333&focus=orders&hops=1")

    assert [node["name"] for node in found["nodes"]] == ["/data/landing", "orders", "revenue"]


def test_flows_of_an_update_whose_process_was_killed_are_lost(busy_shop, served):
    begun = [state("orders", FlowState.STARTING), state("orders", FlowState.RUNNING)]
    busy_shop.update("cccc3333-0000", *definitions(), *begun)

    assert nodes(graph(served(busy_shop).sign_in(), f"{P}/graph?update=cccc3333"))["orders"] == "LOST"


def test_the_page_of_a_past_graph_keeps_to_its_update(browser):
    page = browser.call("/p/shop/graph?update=aaaa1111&focus=orders").text

    assert "As the update" in page
    assert page.count("&amp;update=aaaa1111-0000") > 2
    assert "/p/shop/graph?update=bbbb2222-0000" in browser.call("/p/shop/u/bbbb2222-0000").text
    assert browser.call("/p/shop/graph?update=no").status == 404


def test_a_past_graph_of_an_unknown_update_is_missing(browser):
    answer = browser.call(f"{P}/graph?update=no")

    assert (answer.status, answer.json["error"]["code"]) == (404, "TRACE.NO_UPDATE")


def test_events_of_a_type_and_of_a_level(browser):
    def chosen(query):
        answer = browser.call(f"{P}/events?{query}").json
        matches("Events", answer)
        return [(one["event_type"], one["level"]) for one in answer]

    assert chosen("type=update_progress") == [("update_progress", "INFO")] * 3 + [("update_progress", "ERROR")]
    assert chosen("level=ERROR") == [("flow_progress", "ERROR"), ("update_progress", "ERROR")]
    assert chosen("type=create_update&type=flow_progress&level=WARN") == [("flow_progress", "WARN")]
    assert chosen("type=of_a_newer_version") == []


@pytest.mark.parametrize("query", ["level=LOUD", "type=x'%20OR%20''='", "type=" + "x" * 60])
def test_a_type_or_level_that_none_has_is_refused(browser, query):
    answer = browser.call(f"{P}/events?{query}")

    assert (answer.status, answer.json["error"]["code"]) == (422, "API.FIELD")


def test_alerts_of_all_pipelines_are_in_one_list_the_most_urgent_first(busy_shop, tmp_path, served):
    (tmp_path / "second").mkdir()
    other = new_shop(tmp_path / "second")
    write_alerts(monitoring(busy_shop, MonitoringFile.ALERTS), StoredAlerts((alert("first"), alert("last", since=9.0))))
    other_file = monitoring(other, MonitoringFile.ALERTS)
    other_file.parent.mkdir(parents=True)
    write_alerts(other_file, StoredAlerts((alert("worst", Severity.BAD, 5.0),)))
    browser = served(busy_shop, other).sign_in()

    found = browser.call("/api/v1/alerts").json
    other_file.unlink()
    other_file.mkdir()
    broken = browser.call("/api/v1/alerts").json

    matches("AllAlerts", found)
    assert [(one["pipeline"], one["message"]) for one in found["alerts"]] == [
        ("shop-2", "worst"),
        ("shop", "first"),
        ("shop", "last"),
    ]
    matches("AllAlerts", broken)
    assert [one["message"] for one in broken["alerts"]] == ["first", "last"]
    assert [(one["pipeline"], one["code"]) for one in broken["problems"]] == [("shop-2", "ALERTS.NOT_READABLE")]


def test_metrics_of_all_pipelines_are_one_text_for_prometheus(busy_shop, tmp_path, served):
    shutil.copytree(busy_shop.root, tmp_path / "second")
    answer = served(busy_shop, Shop(tmp_path / "second", Clock())).sign_in().call("/metrics")

    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    # Two pipelines of one name must not be one series.
    readable = {one: value for one, value in samples(answer.text).items() if "readable" in one[0]}
    assert readable == {("headrace_pipeline_readable", "shop"): 1, ("headrace_pipeline_readable", "shop-2"): 1}
    names = [family.name for family in text_string_to_metric_families(answer.text)]
    assert len(names) == len(set(names))
    assert 'headrace_table_rows{pipeline="shop-2",dataset="orders"} 3.0' in answer.text


def test_a_pipeline_that_cannot_be_read_is_named_beside_the_others(busy_shop, tmp_path, served):
    shutil.copytree(busy_shop.root, tmp_path / "second")
    log = tmp_path / "second" / "storage" / "system" / "events" / "_delta_log"
    for file in log.glob("*.json"):
        file.write_text("no JSON")

    text = served(busy_shop, Shop(tmp_path / "second", busy_shop.clock)).sign_in().call("/metrics").text

    found = samples(text)
    assert (found["headrace_pipeline_readable", "shop"], found["headrace_pipeline_readable", "shop-2"]) == (1, 0)


def test_metrics_need_a_token_of_any_role_and_have_no_secrets(busy_shop, served):
    (busy_shop.root / "pipeline.yml").write_text("name: shop\nconfiguration: {key: '${secret:shop/key}'}\n")
    browser = served(busy_shop, environ={"HEADRACE_HOST": "here", "HEADRACE_SECRET_SHOP_KEY": "landing"})
    viewer = browser.tokens.add("prometheus", Role.VIEWER, busy_shop.clock.seconds())

    stranger = browser.call("/metrics")
    answer = browser.call("/metrics", authorization=f"Bearer {viewer}")

    assert (stranger.status, stranger.json["error"]["code"]) == (401, "API.UNAUTHORIZED")
    assert stranger.headers["www-authenticate"] == "Bearer"
    assert answer.status == 200
    assert "headrace_flow_lag" in answer.text
    assert "landing" not in answer.text
    assert browser.call("/metrics", host="evil.example", authorization=f"Bearer {viewer}").status == 421


def test_lists_of_updates_go_back_to_the_first_one_and_name_each_once(busy_shop, served):
    ids = [f"{number:04}-update" for number in range(5)]
    for update_id in ids:
        # Its process is gone.
        busy_shop.update(update_id)
    browser, found, rest = served(busy_shop).sign_in(), [], ""
    while rest is not None:
        part = browser.call(f"{P}/updates?limit=3{rest}").json
        matches("Updates", part)
        found += [(one["update_id"], one["state"]) for one in part["updates"]]
        rest = None if part["earlier"] is None else f"&before={part['earlier']}"

    lost = [(update_id, "LOST") for update_id in reversed(ids)]
    assert found == [*lost, ("bbbb2222-0000", "FAILED"), ("aaaa1111-0000", "COMPLETED")]


def test_the_page_of_the_updates_leads_to_earlier_ones(busy_shop, served):
    for number in range(49):
        busy_shop.update(f"{number:04}-update", UpdateStateChanged(UpdateState.COMPLETED))
    browser = served(busy_shop).sign_in()

    newest = browser.call("/p/shop/updates").text
    path = re.search(r'href="(/p/shop/updates\?before=\d+)" rel="next"', newest)[1]
    earlier = browser.call(path).text

    assert ("aaaa1111" in newest, "bbbb2222" in newest) == (False, True)
    assert ("aaaa1111" in earlier, "bbbb2222" in earlier, 'rel="next"' in earlier) == (True, False, False)
    assert "The event log has no earlier update." in browser.call("/p/shop/updates?before=0").text
