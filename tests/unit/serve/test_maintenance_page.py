"""What the page of the maintenance says: what was done, what is due by now, and what the settings keep."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from tests.unit.serve.conftest import NOON, assert_golden, rendered

from headrace.events.recorded import Recorded
from headrace.events.upkeep import TableMaintained
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.model.maintenance import DAY_S, MaintenancePolicy, Task
from headrace.model.time_window import TimeWindow
from headrace.plan.maintenance import Action, ActionState, Size
from headrace.serve.pages.maintenance_page import action_facts, by_need, done_facts, left_facts, policy_facts

PATH = "/p/shop/maintenance"


def recorded(run, seconds, task, state, **more):
    event = TableMaintained("orders", "/t/orders", task, state, more.pop("reason", "because"), **more)
    return Recorded(f"{run}-{seconds}", run, NOON - timedelta(seconds=seconds), event)


def samples(**files):
    found = Samples()
    for name, number in files.items():
        found.set(catalogue.TABLE_FILES, number, name)
    found.set(catalogue.UNREFERENCED, 9e9, "old")
    found.set(catalogue.OLD_EPOCHS, 3, "orders", "orders")
    found.set(catalogue.INACTIVE, 2048, "gone", "")
    found.set(catalogue.FREE, 5e9)
    return found


def document(**more):
    paging = {"page": 1, "pages": 2, "total": 25}
    base = {"name": "shop", "as_of": "2026-11-20T12:00:00Z", "unread": [], "tables": ["orders"], "due": []}
    return {**base, "paging": paging, "policy": policy_facts(MaintenancePolicy()), **more}


def test_maintenances_are_summed_and_what_is_due_says_why():
    events = [
        recorded("m2", 10, "compact", "DONE", files_before=300, bytes_before=900, files_after=2, bytes_after=800),
        recorded("m2", 60, "vacuum", "FAILED", reason="STORAGE.TABLE_UNREADABLE"),
        recorded("m1", 90_000, "vacuum", "DONE", files_before=9, bytes_before=5000, files_after=2, bytes_after=1000),
        recorded("m1", 90_001, "retention", "SKIPPED", rows=3),
    ]
    due = [
        Action("orders", "/t", Task.COMPACT, ActionState.PLANNED, "31 small files", Size(31, 9000), Size(1, 9000)),
        Action("orders", "/t", Task.VACUUM, ActionState.SKIPPED, "a stream needs version 3", Size(40, 10_000)),
    ]
    policy = MaintenancePolicy(
        window=TimeWindow.of("01:00-05:00 Europe/Berlin"), most_s=3600, epochs_retain_s=30 * DAY_S
    )

    done = done_facts(events)
    html = rendered(
        "maintenance.html",
        document(
            **done,
            **left_facts(samples()),
            due=[action_facts(one.to_json()) for one in due],
            policy=policy_facts(policy),
        ),
    )

    sums = [(run["run"], run["mark"], run["done"], run["failed"], run["freed_bytes"]) for run in done["runs"]]
    # A compaction leaves the old files.
    assert sums == [("m2", "bad", 1, 1, 0), ("m1", "ok", 1, 0, 4000)]
    assert (done["runs"][1]["started_at"], done["runs"][1]["ended_at"]) == (
        "2026-11-19T10:59:59Z",
        "2026-11-19T11:00:00Z",
    )
    assert_golden("maintenance", html)


def test_tables_with_bytes_to_free_come_first_then_those_with_many_files():
    names = by_need(["few", "many", "old", "unknown"], samples(few=2, many=200, old=1))

    assert names == ["old", "many", "few", "unknown"]


def test_what_is_due_is_found_without_a_session_and_a_torn_log_of_maintenance_is_named(busy_shop, served):
    for _ in range(22):
        write_deltalake(busy_shop.table("orders"), pa.table({"id": [1]}), mode="append")
    folder = Path(busy_shop.table("orders")).parents[2] / "checkpoints" / "default" / "orders" / "orders"
    folder.mkdir(parents=True)
    (folder / "flow.json").write_text('{"format": 1, "epoch": 0, "identity": "orders", "mode": "append"}')
    operations = busy_shop.root / "storage" / "system" / "operations" / "_delta_log"
    operations.mkdir(parents=True)
    (operations / "00000000000000000000.json").write_text("{")
    browser = served(busy_shop).sign_in()

    page = browser.call(f"{PATH}.json").json

    assert {(one["task"], one["state"]) for one in page["due"]} >= {("compact", "PLANNED"), ("checkpoint", "PLANNED")}
    assert page["tables"] == ["orders"]
    assert [one["part"] for one in page["unread"]] == ["the log of maintenance"]
    assert browser.call(PATH).status == 200


def test_before_the_first_update_the_page_says_what_writes_tables(shop, served):
    text = served(shop).sign_in().call(PATH).text

    assert "No table yet" in text
    assert "No maintenance is recorded" in text
