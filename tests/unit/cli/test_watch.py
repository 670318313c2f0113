from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.status import followed
from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.reader import EventReader
from headrace.events.types import BatchDone, Event, FlowStateChanged, UpdateCreated, UpdateStateChanged
from headrace.metrics import catalogue
from headrace.model.outcome import FlowCounts, FlowState, Outcome, UpdateState
from headrace.project.inspection.stored_project import StoredProject
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name, latest_outcome
from headrace.settings.load import load_settings

BEGUN: tuple[Event, ...] = (
    UpdateCreated("USER_ACTION"),
    FlowStateChanged("orders", "orders", FlowState.RUNNING, attempt=1),
    BatchDone("orders", "orders", 0, 0, FlowCounts(7)),
)
ERROR = {"code": "FLOW.FAILED", "message": "it broke", "location": {"file": "a.py", "line": 3}}
COMPLETED = UpdateStateChanged(UpdateState.COMPLETED)
STARTED = Outcome("u1", UpdateState.COMPLETED, "USER_ACTION", datetime(2026, 11, 20, tzinfo=UTC), None, ())
_ids = count()


@pytest.fixture
def project(cli: Any, tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    return tmp_path


def record(project: Path, *events: Event, update: str = "u1") -> None:
    with open_log(project, update) as log:
        for event in events:
            log.emit(event)


def open_log(project: Path, update: str = "u1") -> EventLog:
    ticks = count()
    return EventLog(
        str(project / "storage/system/events"),
        origin=Origin("p1", "shop", update),
        clock=lambda: datetime(2026, 11, 20, tzinfo=UTC) + timedelta(seconds=next(ticks)),
        new_id=lambda: f"id{next(_ids)}",
    )


def reader(project: Path) -> EventReader:
    return EventReader(str(project / "storage/system/events"))


def types(rows: Any) -> list[str]:
    return [row["event_type"] for row in rows]


def test_status_shows_a_running_update(cli: Any, project: Path) -> None:
    record(project, *BEGUN)

    with Lease(project / "storage/lease.json", host_name(os.environ), time.time, update_id="u1"):
        code, out, _ = cli("status")
        _, value, _ = cli("status", "--output", "json")

    assert (code, json.loads(value)["flows"][0]["rows_written"]) == (0, 7)
    assert out.startswith("update u1 RUNNING\nstarted 2026-11-20 00:00:00 UTC (USER_ACTION)\n")


def test_status_reports_an_update_as_lost_if_its_process_was_killed(cli: Any, project: Path) -> None:
    record(project, *BEGUN, FlowStateChanged("copy", "copy", FlowState.COMPLETED, attempt=1))
    lease = project / "storage/lease.json"
    with Lease(lease, host_name(os.environ), time.time):
        held = json.loads(lease.read_text())
    # As it stands after kill -9.
    lease.write_text(json.dumps({**held, "released": False, "python": {"pid": 4_194_305, "started_at": 1.0}}))

    code, out, _ = cli("status")
    as_json, value, _ = cli("status", "--output", "json")

    found = json.loads(value)
    assert (code, as_json, found["state"]) == (1, 1, "LOST")
    assert {flow["flow"]: flow["state"] for flow in found["flows"]} == {"orders": "LOST", "copy": "COMPLETED"}
    assert out.startswith("update u1 LOST\nstarted 2026-11-20 00:00:00 UTC (USER_ACTION)\nIts process ended without")


def test_a_killed_update_stays_lost_while_the_next_one_has_the_lease_but_no_event_yet(cli: Any, project: Path) -> None:
    record(project, *BEGUN)

    with Lease(project / "storage/lease.json", host_name(os.environ), time.time, update_id="u2"):
        code, before, _ = cli("status", "--output", "json")
        metrics = StoredProject(load_settings(project / "pipeline.yml", environ={}), os.environ).metrics(tables=False)
        record(project, UpdateCreated("USER_ACTION"), update="u2")
        _, after, _ = cli("status", "--output", "json")

    assert (code, json.loads(before)["state"], json.loads(after)["state"]) == (1, "LOST", "RUNNING")
    assert metrics.of(catalogue.UPDATE_STATE) == {("LOST",): 1}


def test_an_update_that_ended_between_two_reads_is_not_lost(project: Path) -> None:
    outcomes = iter([replace(STARTED, state=UpdateState.RUNNING), STARTED])

    assert latest_outcome(lambda: next(outcomes), project / "lease.json", "here", time.time) == STARTED


def test_status_exits_with_1_when_the_last_update_failed(cli: Any, project: Path) -> None:
    record(project, *BEGUN, COMPLETED)
    record(project, *BEGUN, UpdateStateChanged(UpdateState.FAILED, ERROR), update="u2")

    code, out, _ = cli("status")
    as_json, value, _ = cli("status", "--output", "json")

    assert (code, as_json, json.loads(value)["error"]) == (1, 1, ERROR)
    assert out.startswith("a.py:3\nerror[FLOW.FAILED]: it broke\n")


@pytest.mark.parametrize(("verb", "said"), [("status", "null\n"), ("events", "[\n]\n")])
def test_status_and_events_are_empty_before_the_first_update(cli: Any, project: Path, verb: str, said: str) -> None:
    assert cli(verb) == (0, "no update yet\n", "")
    assert cli(verb, "--output", "json") == (0, said, "")


def test_missing_project_folder_is_rejected(cli: Any) -> None:
    code, out, _ = cli("status", "--project", "nowhere", "--output", "json")

    assert (code, json.loads(out)["error"]["code"]) == (2, "CLI.NO_FOLDER")


def test_events_json_is_one_document_with_one_event_per_line(cli: Any, project: Path) -> None:
    record(project, *BEGUN)

    _, out, _ = cli("events", "--output", "json")
    _, text, _ = cli("events", "--limit", "1")

    rows = json.loads(out)
    assert len(out.splitlines()) == len(rows) + 2
    assert types(rows) == ["create_update", "flow_progress", "flow_progress"]
    assert rows[2]["details"]["flow_progress"]["metrics"] == {"num_output_rows": 7}
    assert text == '2026-11-20 00:00:02.000  METRICS  flow "orders" finished batch 0: 7 rows written\n'


def test_follow_ends_when_the_update_ends(cli: Any, project: Path) -> None:
    record(project, *BEGUN, COMPLETED)
    record(project, UpdateCreated("USER_ACTION"), COMPLETED, update="u2")

    code, out, _ = cli("events", "--follow")

    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, types(rows)) == (0, ["create_update", "update_progress"])
    assert {row["origin"]["update_id"] for row in rows} == {"u2"}


def test_follow_waits_for_the_first_update_and_shows_all_its_events(project: Path) -> None:
    steps: Iterator[Any] = iter([lambda: None, lambda: record(project, *BEGUN), lambda: record(project, COMPLETED)])

    rows = list(followed(reader(project), lambda _: next(steps)()))

    assert types(rows) == ["create_update", "flow_progress", "flow_progress", "update_progress"]


def test_follow_continues_with_the_next_update_after_a_killed_one(project: Path) -> None:
    record(project, *BEGUN)
    steps: Iterator[Any] = iter([lambda: record(project, UpdateCreated("USER_ACTION"), COMPLETED, update="u2")])

    rows = list(followed(reader(project), lambda _: next(steps)(), limit=1))

    assert types(rows) == ["flow_progress", "create_update", "update_progress"]


def test_verbs_that_monitor_start_no_process_and_import_nothing_slow(project: Path) -> None:
    """What is slow was measured: each of these takes as long to import as `status` takes."""
    record(project, *BEGUN, COMPLETED)
    program = """
import sys

started = []
starts = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty", "os.system")
sys.addaudithook(lambda event, _: started.append(event) if event in starts else None)
from headrace.cli.main import call

verbs = ["--help", "completion bash", "status --output json", "events", "alerts list"]
verbs += ["metrics", "metrics --file f", "trace"]
codes = [call(verb.split()) for verb in verbs]
slow = {"pyspark", "py4j", "pandas", "numpy", "pyarrow", "pydantic", "rich.console", "sqlglot", "importlib.metadata"}
print(codes, started, sorted(slow & sys.modules.keys()))
"""

    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=project)

    assert printed.stdout.splitlines()[-1] == "[0, 0, 0, 0, 0, 0, 0, 0] [] []"
