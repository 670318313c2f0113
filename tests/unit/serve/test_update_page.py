"""The page of an update: its plan with the reason for each flow, and its events by level and flow, in parts."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest
from tests.unit.plan.test_plan_files import DOCUMENT
from tests.unit.serve.conftest import FAILURE, batch, definitions, plain, state

from headrace.events.types import UpdateStateChanged, Warned
from headrace.model.outcome import NOT_SELECTED, FlowState, UpdateState
from headrace.plan.plan_file import PlanFile

UPDATE = "/p/shop/u/cccc"
STATES = (
    state("orders", FlowState.STARTING, reason="3 new files"),
    state("orders", FlowState.RETRYING, reason="next attempt in 1 s", error=FAILURE),
    state("orders", FlowState.STARTING, reason="3 new files"),
    state("orders", FlowState.COMPLETED),
    state("revenue", FlowState.UP_TO_DATE, reason="inputs, code and settings are unchanged"),
)


def update(shop, *events, **created):
    """An update with the id that the tests look at, which has ended."""
    shop.update("cccc3333-0000", *definitions(), *events, UpdateStateChanged(UpdateState.COMPLETED), **created)
    return shop


def steps(browser):
    plan = browser.call(f"{UPDATE}.json").json["plan"]
    return plan, [(one["name"], one["action"], one["reason"]) for one in plan["steps"]]


def messages(browser, query=""):
    return [one["message"] for one in browser.call(f"{UPDATE}.json{query}").json["events"]["rows"]]


def test_the_plan_says_what_each_flow_was_to_do_and_why_whatever_came_of_it(shop, served):
    excluded = state("publish", FlowState.EXCLUDED, "shop_out", reason=NOT_SELECTED)
    browser = served(update(shop, *STATES, excluded, selections={"refresh": ["orders", "revenue"]})).sign_in()

    plan, found = steps(browser)

    unchanged = "inputs, code and settings are unchanged"
    assert found == [("orders", "start", "3 new files"), ("revenue", "up to date", unchanged)]
    assert (plan["selections"], plan["is_whole"]) == ([{"label": "Refresh", "names": ["orders", "revenue"]}], False)
    assert plan["not_selected"] == 1
    assert "1 flow not selected." in plain(browser.call(UPDATE).text)


def test_a_flow_that_did_not_start_says_what_kept_it(shop, served):
    stopped = state("revenue", FlowState.CANCELED, reason="the update was stopped")
    failed = state("orders", FlowState.FAILED, reason="its stores disagree", error=FAILURE)
    _, found = steps(served(update(shop, failed, stopped)).sign_in())

    assert found == [
        ("orders", "fail", "its stores disagree"),
        ("revenue", "not started", "the update was stopped"),
        ("publish", "not started", "the update ended before it could start"),
    ]


def test_an_applied_plan_is_linked_with_its_steps_of_tables_while_its_file_is_there(shop, served):
    times = {"made_at": shop.clock.at.isoformat(), "expires_at": (shop.clock.at + timedelta(days=1)).isoformat()}
    document = PlanFile({**copy.deepcopy(DOCUMENT), **times, "plan_id": "pl-1"})
    (shop.root / "change.plan.json").write_text(document.to_text())
    update(shop, *STATES, plan_id="pl-1", request_id="r-7")
    browser = served(shop).sign_in()

    plan, found = steps(browser)
    page = browser.call(UPDATE).text

    assert (found[0], plan["steps"][0]["kind"]) == (("orders", "reset", "full refresh"), "table")
    assert 'href="/p/shop/changes?plan=pl-1"' in page
    assert 'href="/p/shop/requests/r-7"' in page
    (shop.root / "change.plan.json").unlink()
    again = plain(served(shop).sign_in().call(UPDATE).text)
    assert "plan pl-1 (its file is gone)" in again


def test_events_are_listed_newest_first_and_without_metrics_until_they_are_asked_for(shop, served):
    warned = Warned("FLOW.RESET", "the checkpoint is reset", "orders", "orders")
    browser = served(update(shop, *STATES, batch(0), warned)).sign_in()

    found = browser.call(f"{UPDATE}.json").json["events"]

    assert [one["message"] for one in found["rows"]][:3] == [
        "update is COMPLETED",
        "the checkpoint is reset",
        'flow "revenue" is UP_TO_DATE: inputs, code and settings are unchanged',
    ]
    assert (found["rows"][1]["code"], found["rows"][1]["mark"]) == ("FLOW.RESET", "warn")
    assert {one["level"]: one["count"] for one in found["levels"]} == {"ERROR": 0, "WARN": 2, "INFO": 14, "METRICS": 15}
    assert 'flow "orders" finished batch 0: 100 rows written' in messages(browser, "?level=METRICS")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?level=WARN", ["the checkpoint is reset", 'flow "orders" is RETRYING: next attempt in 1 s']),
        ("?level=ERROR", []),
        ("?flow=revenue&level=WARN", []),
        ("?flow=none' OR 'a'='a", []),
        ("?flow=revenue&level=no&page=-1", ['flow "revenue" is UP_TO_DATE', 'flow "revenue" defined']),
    ],
)
def test_events_are_filtered_by_level_and_flow(shop, served, query, expected):
    warned = Warned("FLOW.RESET", "the checkpoint is reset", "orders", "orders")
    browser = served(update(shop, *STATES[:4], state("revenue", FlowState.UP_TO_DATE), warned)).sign_in()

    assert [one.partition(" with target")[0] for one in messages(browser, query)] == expected


def test_the_filter_is_a_form_that_keeps_what_was_chosen_and_so_do_the_parts(shop, served):
    many = [state("orders", FlowState.IDLE, reason=str(number)) for number in range(120)]
    browser = served(update(shop, *many)).sign_in()

    first, last = (browser.call(f"{UPDATE}?level=INFO&flow=orders&page={number}").text for number in (1, 99))
    shown = browser.call(f"{UPDATE}.json?flow=orders&page=3").json["events"]

    assert '<option value="INFO" selected>All but metrics (121)</option>' in first
    assert '<option value="orders" selected>orders</option>' in first
    assert '?level=INFO&amp;flow=orders&amp;page=2#h-events" rel="next"' in first
    assert "Part 3 of 3" in last
    assert [one["message"] for one in shown["rows"]][-1].startswith('flow "orders" defined')
    assert len(shown["rows"]) == 21


def test_a_choice_without_events_says_so_and_shows_all(shop, served):
    page = plain(served(update(shop, *STATES)).sign_in().call(f"{UPDATE}?level=ERROR&flow=revenue").text)

    assert "none of this level and of flow revenue. Show all" in page


def test_long_messages_are_cut(shop, served):
    long = Warned("X.LONG", "word " * 500, "orders", "orders")
    browser = served(update(shop, long)).sign_in()

    message = next(one for one in messages(browser, "?level=WARN"))

    assert len(message) < 700
    assert message.endswith(" …")


def test_the_api_lists_the_events_that_its_parameters_ask_for(shop, served):
    browser = served(update(shop, *STATES)).sign_in()

    found = browser.call("/api/v1/pipelines/shop/updates/cccc?level=WARN&flow=orders").json["events"]

    assert [one["level"] for one in found["rows"]] == ["WARN"]
