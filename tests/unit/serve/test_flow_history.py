"""What a flow measured over time, on its page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.unit.serve.conftest import NOON, definitions, plain, progress

from headrace.events.types import FlowLagMetrics, UpdateStateChanged
from headrace.model.outcome import FilesBacklog, PartitionLag, TableLag, UpdateState
from headrace.model.stream_progress import OperatorProgress

STATE = OperatorProgress("dedupe", "deduplication", 7, 0, 0, 0, 0, 2048, 1)


def lag(**given):
    return FlowLagMetrics("orders", "orders", **given)


def history(browser):
    found = browser.call("/p/shop/f/orders.json").json["history"]
    return {one["name"]: [point["value"] for point in one["points"]] for one in found}


def test_speed_watermark_state_and_lag_are_shown_over_time(busy_shop, served):
    """Guards the newest value and the earlier ones, of each unit in which lag is reported."""
    report = progress(5, NOON)
    stateful = replace(report, progress=replace(report.progress, watermark=NOON, operators=(STATE, STATE)))
    reports = [
        lag(tables=(TableLag("landing", 2, 40, 4096, NOON), TableLag("other", 1, 2, 1))),
        lag(tables=(TableLag("landing", 0, 0, 0),), lag=(PartitionLag("t", 0, 5, 8), PartitionLag("t", 1, 5, 5))),
        lag(backlog=(FilesBacklog("/in", 3, 10, NOON + timedelta(hours=1)),)),
        stateful,
    ]
    busy_shop.update("cccc3333-0000", *definitions(), *reports, UpdateStateChanged(UpdateState.COMPLETED))

    browser = served(busy_shop).sign_in()
    found = history(browser)

    assert found["Rows not read"] == [40, 42, 0]
    assert found["Records not read"] == [3]
    assert found["Files not read"] == [3]
    assert found["Age of what is not read"][-2] == 0
    assert (found["Rows of state"], found["Memory of state"]) == ([14], [4096])
    assert found["Watermark delay"][0] > 3600
    assert all(value > 0 for value in found["Rows a second"])
    page = plain(browser.call("/p/shop/f/orders").text)
    assert "Records not read offsets of topics; now 3, at most 3" in page


def test_a_flow_that_reports_nothing_has_no_history(busy_shop, served):
    assert history(served(busy_shop).sign_in())
    assert "Over time" not in served(busy_shop).sign_in().call("/p/shop/f/revenue").text
