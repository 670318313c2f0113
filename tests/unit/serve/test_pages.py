"""What each page says, as HTML and as JSON, of a pipeline with a failed flow, of an empty one and of a torn one."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.serve.conftest import definitions, stable

from headrace.errors import PipelineError
from headrace.events.types import FlowStateChanged, UpdateStateChanged
from headrace.model.outcome import FlowState, UpdateState
from headrace.project.lease import Lease
from headrace.serve.charts import line_width, sparkline, stacked_bars, update_bars
from headrace.serve.formats import count, duration, plural, rate, share, size
from headrace.serve.navigation import SECTIONS
from headrace.serve.pages.help_page import help_index, help_page
from headrace.settings.load import load_settings

GOLDEN = Path(__file__).parent / "golden"
PATHS = (
    *("/", "/p/shop", "/p/shop/graph", "/p/shop/updates", "/p/shop/doctor", "/p/shop/u/bbbb"),
    *("/p/shop/d/orders", "/p/shop/d/revenue", "/p/shop/d/shop_out", "/p/shop/f/orders", "/help/FLOW.FAILED"),
    *(f"/p/shop/{name}" for name in ("alerts", "quarantine", "changes", "schedules", "savepoints", "maintenance")),
    "/help",
)


@pytest.mark.parametrize(("name", "path"), [("overview", "/p/shop"), ("flow", "/p/shop/f/orders")])
def test_a_page_is_as_expected(seen_shop, browser, name, path):
    shown = stable(browser.call(path).text, seen_shop)

    file = GOLDEN / f"{name}.html"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown)
    assert shown == file.read_text()


@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_html_and_at_the_same_url_json(browser, path):
    html, found = browser.call(path), browser.call(f"{path}.json")

    assert (html.status, html.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    assert isinstance(found.json, dict)
    assert f'href="{path}.json"' in html.text
    ids, named = (re.findall(rf' {name}="([^"]+)"', html.text) for name in ("id", "aria-labelledby"))
    assert len(ids) == len(set(ids))
    assert set(named) <= set(ids)
    assert html.text.count("<h1") == 1


def test_the_list_of_pipelines_has_the_worst_of_each(browser):
    (row,) = browser.call("/.json").json["pipelines"]

    assert (row["name"], row["state"], row["is_running"]) == ("shop", "FAILED", False)
    assert row["worst"] == 'Flow "revenue" failed.'
    assert row["healths"] == {"bad": 1, "warn": 1, "ok": 1}
    assert row["open"]["alerts"] > 0
    assert 'href="/p/shop/alerts"' in browser.call("/").text
    assert [update["state"] for update in row["updates"]] == ["FAILED", "COMPLETED"]


def test_what_needs_attention_is_a_sentence_with_its_cause_and_the_next_command(browser):
    first, second, *_ = browser.call("/p/shop.json").json["attention"]

    # The update failed because the flow did, so it is no entry of its own.
    assert (first["severity"], first["sentence"]) == ("bad", 'Flow "revenue" failed.')
    assert (first["cause"], first["hint"]) == ("Division by zero.", "Correct the query.")
    assert (first["first_step"], first["code"]) == ("headrace status", "FLOW.FAILED")
    expected = 'Dataset "shop_out" is not up to date: flow "publish" is SKIPPED (an input failed).'
    assert (second["severity"], second["sentence"]) == ("warn", expected)


def test_an_update_whose_process_is_gone_is_lost_and_says_what_continues_it(shop, served):
    shop.update("cccc", *definitions(), FlowStateChanged("orders", "orders", FlowState.RUNNING))
    shop.clock.at += timedelta(minutes=2)
    browser = served(shop).sign_in()

    page = browser.call("/p/shop.json").json
    (update,) = page["updates"]

    assert (page["state"], update["state"], page["flows"][0]["state"]) == ("LOST", "LOST", "LOST")
    assert page["attention"][0]["first_step"] == "headrace run"
    assert "continues where it stopped" in browser.call("/p/shop").text
    assert browser.call("/p/shop/u/cccc.json").json["state"] == "LOST"


def test_pages_look_again_as_long_as_they_show_an_update_that_runs(shop, served):
    shop.update("cccc", *definitions(), UpdateStateChanged(UpdateState.RUNNING))
    lease = load_settings(shop.root / "pipeline.yml", environ={}).layout.lease
    pages = ("/p/shop", "/p/shop/updates", "/p/shop/u/cccc")

    with Lease(lease, "here", time.time, update_id="cccc"):
        browser = served(shop).sign_in()
        running = ["data-running" in browser.call(path).text for path in pages]
        shown = browser.call("/p/shop/u/cccc").text
    browser = served(shop).sign_in()

    assert running == [True, True, True]
    assert re.search(r'id="update-state" data-live><span class="status [a-z]+" data-running>', shown)
    assert ["data-running" in browser.call(path).text for path in pages] == [False, False, False]


def test_before_the_first_update_every_page_says_that_there_is_no_data(shop, served):
    browser = served(shop).sign_in()

    assert "No update has run yet" in browser.call("/p/shop").text
    assert browser.call("/p/shop/graph.json").json["nodes"] == []
    assert [browser.call(path).status for path in ("/", "/p/shop/graph", "/p/shop/updates", "/p/shop/doctor")] == [
        200
    ] * 4
    assert [browser.call(path).status for path in ("/p/shop/d/orders", "/p/shop/f/x", "/p/shop/u/x")] == [404] * 3


def test_a_torn_event_log_is_named_and_the_rest_is_shown(busy_shop, served):
    for commit in (Path(busy_shop.events) / "_delta_log").glob("*.json"):
        commit.write_text("{")
    browser = served(busy_shop).sign_in()

    page = browser.call("/p/shop.json")

    assert page.status == 200
    unread = [item for item in page.json["attention"] if item["severity"] == "warn"]
    assert any("the event log could not be read" in item["sentence"].lower() for item in unread)
    assert browser.call("/").status == 200


def test_the_graph_goes_from_sources_to_sinks_with_health(browser):
    page = browser.call("/p/shop/graph.json").json

    nodes = [(node["name"], node["kind"], node["health"]) for node in page["nodes"]]
    assert nodes == [
        ("/data/landing", "auto loader source", None),
        ("orders", "streaming table", "ok"),
        ("revenue", "materialized view", "bad"),
        ("shop_out", "sink", "warn"),
    ]
    assert [(edge["source"], edge["target"]) for edge in page["edges"]] == [
        ("/data/landing", "orders"),
        ("orders", "revenue"),
        ("revenue", "shop_out"),
    ]


def test_lines_of_the_graph_are_wider_the_more_rows_go_through_them(browser):
    widths = [line_width(rate, 1e6) for rate in (0, 1, 100, 10_000, 1e6)]

    assert widths == sorted(set(widths))
    assert (widths[0], line_width(0, 0), line_width(5, 5)) == (1.5, 1.5, 7.0)
    edges = browser.call("/p/shop/graph.json").json["edges"]
    assert all("rows_per_second" in edge for edge in edges)
    assert browser.call("/p/shop/graph").text.count('stroke-width="1.5"') == len(edges)


def test_a_part_of_the_graph_is_shown_around_a_dataset(browser):
    near = browser.call("/p/shop/graph.json?focus=orders").json
    far = browser.call("/p/shop/graph.json?focus=orders&hops=2").json
    odd = browser.call("/p/shop/graph.json?focus=orders&hops=-1x").json

    assert [node["name"] for node in near["nodes"]] == ["/data/landing", "orders", "revenue"]
    assert (len(far["nodes"]), odd["hops"]) == (4, 1)
    answer = browser.call("/p/shop/graph?focus=ordrs")
    assert (answer.status, "Did you mean &#34;orders&#34;?" in answer.text) == (404, True)


def test_the_history_of_a_table_names_the_update_and_the_flow_of_each_commit(browser):
    page = browser.call("/p/shop/d/orders.json").json

    history = [(one["version"], one["flow"], one["update_id"], one["rows"]) for one in page["history"]]
    assert history == [
        (2, "orders", "bbbb2222-0000", 100),
        (1, "orders", "aaaa1111-0000", 90),
        (0, "orders", "aaaa1111-0000", 100),
    ]
    (rule,) = page["expectations"]
    assert (rule["name"], rule["passed"], rule["failed"]) == ("valid", 290, 10)
    assert [one["failed"] for one in rule["over_time"]] == [0, 10, 0]
    assert [(one["name"], one["type"], one["comment"]) for one in page["columns"]] == [
        ("id", "int", None),
        ("amount", "decimal(10,2)", "in euros"),
    ]
    assert page["now"]["rows"] == 3


def test_what_a_dataset_cannot_have_is_said(browser):
    sink = browser.call("/p/shop/d/shop_out.json").json
    view = browser.call("/p/shop/d/revenue.json").json

    assert (sink["history"], sink["no_history"]) == ([], "This kind of dataset has no table.")
    assert view["no_history"] == "No update has written the table yet."
    assert "older version" in view["no_columns"]


def test_batches_have_their_phases_rows_and_versions(browser):
    page = browser.call("/p/shop/f/orders.json").json

    batches = {batch["batch_id"]: batch for batch in page["batches"]}
    # Of this batch, the event log has a duration and no phases.
    assert (batches[2]["phases_ms"], batches[2]["rows_read"]) == ({"rest": 1000}, None)
    assert batches[1]["phases_ms"] | {"rest": 0} == {
        "latest_offset": 200,
        "query_planning": 100,
        "add_batch": 900,
        "commit_offsets": 100,
        "rest": 0,
    }
    assert (batches[1]["rows_read"], batches[1]["rows_dropped"], batches[1]["version"]) == (100, 10, 1)
    assert [batch["batch_id"] for batch in page["batches"]] == [2, 1, 0]


def test_an_update_has_its_attempts_and_the_error_with_what_to_do(browser):
    page = browser.call("/p/shop/u/bbbb.json").json

    attempts = [(one["flow"], one["state"], one["error"] and one["error"]["code"]) for one in page["attempts"]]
    assert attempts == [("orders", "COMPLETED", None), ("revenue", "FAILED", "FLOW.FAILED")]
    assert (page["error"]["hint"], page["error"]["location"]["line"]) == ("Correct the query.", 12)
    assert browser.call("/p/shop/u/nothing").status == 404


def test_two_pipelines_of_one_name_have_pages_of_their_own(busy_shop, served, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "pipeline.yml").write_text("name: shop\n")
    twin = type(busy_shop)(other, busy_shop.clock)
    browser = served(busy_shop, twin, busy_shop).sign_in()

    rows = browser.call("/.json").json["pipelines"]

    assert [(row["slug"], row["state"]) for row in rows] == [("shop", "FAILED"), ("shop-2", "NO UPDATE")]
    assert browser.call("/p/shop-2").status == 200


def test_the_navigation_marks_the_page_that_is_shown_and_has_a_letter_for_each(browser):
    paths = {section.name: f"/p/shop{section.path}" for section in SECTIONS}

    marked = {
        name: re.findall(r'href="([^"]+)"[^>]* aria-current="page"', browser.call(path).text)
        for name, path in paths.items()
    }

    assert marked == {name: [path] for name, path in paths.items()}
    assert len({section.key for section in SECTIONS} | {"p", "h"}) == len(SECTIONS) + 2


def test_codes_are_found_by_words_of_their_texts_without_a_script(browser):
    everything, found = help_index().document, help_index("KAFKA lost offsets").document
    last, none = help_index(number=999).document, help_index("no such words").document

    assert everything["paging"]["total"] == everything["all"] > 300
    assert found["codes"][0]["code"] == "KAFKA.OFFSETS_LOST"
    assert 0 < found["paging"]["total"] < 20
    assert (last["paging"]["page"], len(last["codes"]) > 0, none["codes"]) == (last["paging"]["pages"], True, [])
    page = browser.call("/help?q=kafka").text
    assert '<form class="search" method="get" action="/help"' in page
    assert 'href="/help/KAFKA.OFFSETS_LOST"' in page
    assert browser.call("/help/").status == 200


def test_every_code_has_a_help_page_and_an_unknown_one_a_suggestion():
    page = help_page("kafka.offsets_lost")

    assert page.document["code"] == "KAFKA.OFFSETS_LOST"
    assert "{" not in json.dumps(dict(help_page("TRACE.NO_UPDATE").document)).replace('{"', "", 1)
    with pytest.raises(PipelineError) as caught:
        help_page("TRACE.NO_UPDAT")
    assert 'Did you mean "TRACE.NO_UPDATE"?' in caught.value.detail


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (duration(None), "no data"),
        (duration(0.25), "250 ms"),
        (duration(9.96), "10.0 s"),
        (duration(59.7), "1 min"),
        (duration(854), "14 min 14 s"),
        (duration(7200), "2 h"),
        (duration(93_600), "1 d 2 h"),
        (duration(-5), "-5.0 s"),
        (count(1234567), "1,234,567"),
        (count(0.4567), "0.457"),
        (rate(71.43), "71.4 rows/s"),
        (size(1_250_000), "1.2 MB"),
        (size(999), "999 B"),
        (share(9999, 10000), "> 99.9 %"),
        (share(1, 100_000), "< 0.1 %"),
        (share(0, 0), "no data"),
        (plural(1, "batch"), "1 batch"),
        (plural(2, "batch"), "2 batches"),
        (plural(3, "entry"), "3 entries"),
    ],
)
def test_numbers_are_written_as_people_read_them(shown, expected):
    assert shown == expected


def test_charts_stay_inside_of_their_boxes():
    updates = [{"duration_s": seconds} for seconds in (None, 0, 5000, 1)]
    bars = update_bars(updates)
    line = sparkline([1.0, 0.2, 1.0])
    batches = [{"duration_ms": 3, "phases_ms": {"a": 1, "b": 2}}, {"duration_ms": 977, "phases_ms": {"b": 977}}]
    stacked = stacked_bars(batches, ["a", "b"])

    assert all(0 <= bar["y"] < bar["y"] + bar["height"] <= bars["height"] for bar in bars["bars"])
    assert all(0 <= float(y) <= line["height"] for y in (point.split(",")[1] for point in line["line"].split()))
    assert all(part["y"] >= 0 for bar in stacked["bars"] for part in bar["parts"])
    assert (sparkline([1.0]), stacked_bars([], []), stacked["ticks"][-1]["seconds"]) == (None, None, 1.0)
