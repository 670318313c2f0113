"""A storage that version 0.1 wrote is continued: nothing is lost, nothing is duplicated, and state counts on."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.recorded_updates import heard
from tests.servers.receiver import Receiver, running_receiver

from headrace.events.types import Event, Warned
from headrace.model.outcome import FlowState, Outcome, UpdateState
from headrace.plan.steps import Decision
from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection
from headrace.testing.driver import Pipeline
from headrace.testing.result import Result
from headrace.testing.warm import unchanged

pytestmark = pytest.mark.spark

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "storage_0_1" / "storage.tar.gz"
# Where the project was when version 0.1 ran it.
MADE_IN = Path("/tmp/headrace-0.1/project")


def order(number, customer, amount, **more):
    return {"id": number, "customer": customer, "amount": amount, **more}


def event(number, name, city, version, operation="upsert"):
    return {"id": number, "name": name, "city": city, "version": version, "operation": operation}


def at(time_of_day):
    return f"2026-03-01T{time_of_day}:00Z"


def click(number, customer, time_of_day):
    return {"id": number, "customer": customer, "at": at(time_of_day)}


# What comes after 0.1. What came before is in tests/fixtures/storage_0_1/make.py.
THIRD = {
    "orders": [
        order(10, "ana", "50"),
        order(11, "test", "1"),  # dropped
        order(12, "ben", "-9"),  # quarantined
        order(14, None, "60"),  # warned of
        order(15, "dan", "70", note="known to 0.1", shop="another new column"),
    ],
    "clicks": [
        click(3, "ana", "10:20"),  # a duplicate of one that 0.1 read
        click(5, "eve", "10:18"),  # into a window that 0.1 has begun
        click(6, "ben", "10:03"),  # late: 0.1 has moved the watermark to 10:15
        click(9, "fay", "10:21"),  # sold, as 0.1 has read
        click(7, "gil", "10:45"),  # closes the windows that 0.1 has begun
        {"id": 11, "customer": "ida", "at": "later"},  # a record that cannot be processed
    ],
    "sales": [{"sale": 4, "click": 3, "at": at("10:26")}],
    "users": [
        event(1, "Ana", "Lima", 9),  # again
        event(1, "Ana", "Pisa", 4),  # late
        event(2, "Ben", "Ulm", 6),  # older than a delete
        event(3, "Cyd", "Bonn", 6),  # older than a delete
        event(4, None, "Lviv", 8),
        event(5, "Eve", "Nice", 1),  # a new key
    ],
    "products": [{"code": "a", "price": 15}, {"code": "b", "price": 25}],
}
TABLES = {
    "totals": [("ana", 90), ("ben", 5), ("dan", 110), (None, 80)],
    "revenue": [("ana", 90, 3), ("ben", 5, 1), ("dan", 110, 2), (None, 80, 2)],
    "clicks_by_window": [("10:00", 3), ("10:10", 2), ("10:20", 3)],
    "first_clicks": [
        (1, "ana", "10:00"),
        (2, "ben", "10:04"),
        (3, "ana", "10:12"),
        (4, "cyd", "10:25"),
        (5, "eve", "10:18"),
        (7, "gil", "10:45"),
        (9, "fay", "10:21"),
    ],
    "sold_clicks": [(1, 1, "10:00"), (2, 2, "10:04"), (3, 9, "10:21"), (4, 3, "10:12"), (4, 3, "10:20")],
    "users": [(1, "Ana", "Lima", 9), (4, None, "Lviv", 8), (5, "Eve", "Nice", 1)],
    "users_merged": [(1, "Ana", "Lima"), (4, "Dan", "Lviv"), (5, "Eve", "Nice")],
    "users_history": [
        (1, "Ana", "Lima", 9, None),
        (1, "Ana", "Pisa", 4, 5),
        (1, "Ana", "Rio", 3, 4),
        (1, "Ana", "Rome", 5, 9),
        (2, "Ben", "Oslo", 5, 6),
        (2, "Ben", "Ulm", 6, 7),
        (3, "Cyd", "Bern", 5, 6),
        (3, "Cyd", "Bonn", 6, 8),
        (4, "Dan", "Kyiv", 6, 8),
        (4, None, "Lviv", 8, None),
        (5, "Eve", "Nice", 1, None),
    ],
    "products": [("a", 10, 1, 2), ("a", 15, 2, None), ("b", 20, 1, 2), ("b", 25, 3, None), ("c", 30, 2, 3)],
}
OLD_ORDERS = [(1, 10), (2, 20), (3, 5), (7, 30), (None, 40)]
NEW_ORDERS = [(10, 50), (14, 60), (15, 70)]


def unpack(folder):
    """The project and the storage of version 0.1 in *folder*, as if 0.1 had ended a moment ago.

    All times are now: a stream is started once a week whatever there is to do, and old commits of Delta expire.
    """
    now = time.time()
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11.3 and earlier has no such filter.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        for member in archive.getmembers():
            member.mtime = now
        archive.extractall(folder)
    for file in checkpoints(folder).glob("**/flow.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "started_at": now}))


def move_sources(folder):
    """Let version 0.1 have read the files of Spark's file sources in *folder*.

    Their logs have absolute paths, and a stream ends where they are others. A ledger of Auto Loader finds its files
    where they are now.
    """
    for log in checkpoints(folder).glob("**/sources/*/[0-9]*"):
        log.write_text(log.read_text().replace(str(MADE_IN), str(folder)))
        log.with_name(f".{log.name}.crc").unlink()


def checkpoints(folder):
    return folder / "storage" / "checkpoints"


@dataclass(frozen=True)
class Continued:
    """A storage of 0.1 that an update of today has continued; ``status`` and ``history`` are from before."""

    pipeline: Pipeline
    status: Outcome
    history: list[Mapping[str, Any]]
    result: Result
    events: list[Event]
    server: Receiver


@pytest.fixture(scope="module")
def continued(headrace_session, tmp_path_factory):
    """An update with new input of every source, in another folder than the one that 0.1 ran in."""
    folder = tmp_path_factory.mktemp("moved") / "project"
    unpack(folder)
    move_sources(folder)
    pipeline = Pipeline(folder, folder / "storage", os.environ)
    with unchanged(headrace_session, folder), running_receiver() as server:
        status, history = pipeline.project.status(), list(pipeline.project.events().events())
        for source, landed in THIRD.items():
            pipeline.land(f"landing/{source}/3.json", landed)
        pipeline.write("server.txt", server.url)
        result, events = heard(pipeline)
        yield Continued(pipeline, status, history, result, events, server)


@pytest.fixture
def in_its_place(headrace_session):
    """The project where 0.1 ran it, because paths are part of what queries are compared by; one test at a time."""
    with Path(f"{MADE_IN.parent}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(MADE_IN.parent, ignore_errors=True)
        unpack(MADE_IN)
        with unchanged(headrace_session, MADE_IN):
            yield Pipeline(MADE_IN, MADE_IN / "storage", os.environ)
        shutil.rmtree(MADE_IN.parent)


def rows(found, *columns):
    return sorted((tuple(map(plain, (row[name] for name in columns or row))) for row in found), key=str)


def plain(value):
    return value.astimezone(UTC).strftime("%H:%M") if isinstance(value, datetime) else value


def amounts(found):
    return rows({"id": row.get("id"), "amount": row["amount"]} for row in found)


def in_quarantine(pipeline, name):
    return sorted(
        (row["row"]["id"], row["row"]["amount"], row["status"]) for row in pipeline.rows(f"{name}_quarantine")
    )


def test_the_plan_has_only_spilled_batches_when_the_code_of_0_1_is_unchanged(in_its_place):
    # How a bucket is reached is no part of a query.
    add_connection("s3a://any", StoreConnection)

    plan = in_its_place.plan()

    begun = {step.flow.name: step.reason for step in plan.flows if step.decision is not Decision.UP_TO_DATE}
    assert begun == {"to_hook": "2 batches in the spill queue"}
    assert (plan.tables, plan.views, plan.losses, plan.inactive, plan.unavailable) == ((), (), (), (), ())


def test_every_flow_completes_with_new_input(continued):
    warned = {event.code for event in continued.events if isinstance(event, Warned)}

    assert continued.result.state is UpdateState.COMPLETED, continued.result.outcome.error
    assert set(continued.result.states.values()) == {FlowState.COMPLETED}
    assert {"AUTO_LOADER.SCHEMA_GREW", "FLOW.ROWS_TOO_LATE", "SINK.CAUGHT_UP"} <= warned


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_both_versions_are_written_once(continued, table):
    assert rows(continued.result.rows(table)) == sorted(TABLES[table], key=str)


def test_files_are_read_once_and_schema_evolution_continues(continued):
    found = continued.result.rows("orders_raw")

    files = continued.pipeline.project.files("orders_raw")
    rescued = [json.loads(row["_rescued_data"])["id"] for row in found if row["_rescued_data"]]
    extra = {row["id"]: (row["note"], row["shop"]) for row in found if row["note"]}
    assert [Path(dict(zip(files.columns, row, strict=True))["path"]).name for row in files.rows] == [
        "1.json",
        "2.json",
        "3.json",
    ]
    assert sorted(row["id"] for row in found if row["id"]) == [1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 14, 15]
    assert (rescued, extra) == (["eight"], {7: ("a new column", None), 15: ("known to 0.1", "another new column")})


def test_change_events_without_a_sequence_stay_in_quarantine(continued):
    for table in ("users", "users_merged", "users_history"):
        (row,) = continued.result.rows(f"{table}_quarantine")
        assert (row["row"]["id"], row["broken"], row["status"]) == (5, ["cdc.null_sequence"], "open")


def test_the_event_log_of_0_1_is_readable_and_its_counts_continue(continued):
    totals = continued.pipeline.project.events().flow_totals()["orders"]

    before = {flow.flow: (flow.state, flow.counts.rows_written) for flow in continued.status.flows}
    failed = {count.name: count.failed for count in totals.expectations}
    assert len({row["origin"]["update_id"] for row in continued.history}) == 4
    assert (before["totals"], before["orders"]) == ((FlowState.COMPLETED, 4), (FlowState.EXCLUDED, 0))
    # Two of the rows that were quarantined were judged once more, in a replay of 0.1.
    assert (totals.rows_written, totals.rows_dropped, totals.rows_quarantined) == (8, 2, 5)
    assert failed == {"has a customer": 2, "is no test": 2, "amount is positive": 5}


def test_sinks_get_each_delivered_or_spilled_row_once(continued):
    out = continued.pipeline.folder / "out"
    lines = [line for file in (out / "files").glob("*.json") for line in file.read_text().splitlines()]

    delivered = {
        "lake": amounts(DeltaTable(out / "lake").to_pyarrow_table().to_pylist()),
        "calls": amounts(DeltaTable(out / "calls").to_pyarrow_table().to_pylist()),
        "files": amounts(map(json.loads, lines)),
        "waited": amounts(continued.server.taken[: len(OLD_ORDERS)]),
        "new": amounts(continued.server.taken[len(OLD_ORDERS) :]),
    }

    both = sorted(OLD_ORDERS + NEW_ORDERS, key=str)
    waited = {"waited": sorted(OLD_ORDERS, key=str), "new": NEW_ORDERS}
    assert delivered == {"lake": both, "calls": both, "files": both, **waited}


def test_a_persisted_view_of_0_1_can_be_queried(continued):
    found = continued.pipeline.sql("SELECT customer FROM best_customers ORDER BY customer NULLS LAST")

    assert found.rows == (("ana",), ("dan",), (None,))


def test_rows_quarantined_by_0_1_can_be_replayed(continued):
    pipeline = continued.pipeline
    before = in_quarantine(pipeline, "orders")

    result = pipeline.replay("orders", rules=["amount is positive"], changes=["amount=abs(amount) + 1"])

    replayed = [(3, -5, "replayed"), (4, 0, "replayed")]
    assert result.state is UpdateState.COMPLETED
    assert before == sorted([*replayed, (4, 0, "open"), (9, -7, "open"), (12, -9, "open")])
    assert in_quarantine(pipeline, "orders") == sorted([*replayed, *((n, a, "replayed") for n, a, _ in before[2:])])
    assert amounts(pipeline.rows("orders")) == sorted([*OLD_ORDERS, *NEW_ORDERS, (4, 1), (9, 8), (12, 10)], key=str)


def test_dead_letters_of_0_1_can_be_replayed(continued):
    pipeline = continued.pipeline
    before = rows(pipeline.rows("clicks"), "id")

    result = pipeline.replay("clicks", rules=["query.failed"], changes=["at='2026-03-01T10:50:00Z'"])

    assert result.state is UpdateState.COMPLETED
    assert before == [(1,), (1,), (2,), (3,), (3,), (4,), (5,), (6,), (7,), (9,)]
    assert rows(pipeline.rows("clicks"), "id") == sorted([*before, (8,), (11,)], key=str)
