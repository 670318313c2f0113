"""Schedules with real processes: the server is killed around a firing, and the next one goes on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable
from tests.tiers import cases

from headrace.cli.main import call
from headrace.events.reader import EventReader
from headrace.events.recorded import recorded_rows

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long(
        guard=(
            "tests/unit/project/test_scheduler_laws.py::test_each_time_of_a_schedule_fires_once_wherever_schedulers_die",
            "tests/unit/project/test_pipeline_schedules.py::test_a_thread_leads_starts_an_update_and_stops_it_when_it_ends_and_a_second_one_waits",
            "tests/unit/project/test_child_process.py::test_a_child_that_is_stopped_gets_sigterm_and_time_to_end",
        )
    ),
]
HEADRACE = [sys.executable, "-m", "headrace"]
DEADLINE_S = 240.0


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert call(["--quiet", "init", "shop"]) == 0
    root = tmp_path / "shop"
    settings = root / "pipeline.yml"
    settings.write_text(f"{settings.read_text()}schedules: {{arrivals: {{files: data/orders, at_most_every: 0s}}}}\n")
    gold = root / "transformations" / "gold.sql"
    view = "CREATE OR REFRESH MATERIALIZED VIEW revenue_by_day\n"
    gold.write_text(gold.read_text().replace(view, f"{view}TRIGGER ON UPDATE\n"))
    return root


def served(shop: Path) -> subprocess.Popen[str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return subprocess.Popen(
        [*HEADRACE, "serve", "--listen", f"127.0.0.1:{port}"],
        cwd=shop,
        env={**os.environ, "XDG_CONFIG_HOME": str(shop / "config")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def state(shop: Path) -> dict:
    file = shop / "storage" / "system" / "serve" / "schedules.json"
    return json.loads(file.read_text()) if file.exists() else {"running": None, "last": {}}


def wait_for(found, what: str):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.02)
    pytest.fail(f"{what} did not happen in {DEADLINE_S:g} s")


def updates(shop: Path) -> list[tuple[str, list[str]]]:
    reader = EventReader(str(shop / "storage" / "system" / "events"))
    rows = recorded_rows(reader, "event_type = 'create_update'") if reader.exists else []
    return [(row.event.cause, row.event.selections["refresh"]) for row in rows]


def last_state(shop: Path, name: str) -> str | None:
    return state(shop)["last"].get(name, {}).get("state")


@pytest.mark.parametrize("killed_when", cases(["started"], ["decided"]))
def test_an_update_whose_server_is_killed_around_the_firing_runs_once(shop: Path, killed_when: str) -> None:
    """Guards the whole way with real processes: kill -9 around the start, the schedule of SQL, a stop."""
    first = served(shop)
    is_noted = (lambda: True) if killed_when == "decided" else (lambda: state(shop)["running"]["pid"])
    wait_for(lambda: state(shop)["running"] and is_noted(), "the firing")
    first.kill()
    first.communicate()
    pid = state(shop)["running"]["pid"]
    assert killed_when == "decided" or psutil.pid_exists(pid)
    second = served(shop)
    try:
        wait_for(lambda: last_state(shop, "arrivals") == "COMPLETED", "the end of the update")
        # The update has deployed the schedule of the view, whose input has just changed.
        wait_for(lambda: last_state(shop, "dataset:revenue_by_day") == "COMPLETED", "the update of the view")
        second.send_signal(signal.SIGTERM)
        printed, errors = second.communicate(timeout=DEADLINE_S)
    finally:
        second.kill()

    assert second.returncode == 0, errors
    assert "Traceback" not in errors
    assert "shop: schedules run here: arrivals" in printed
    assert updates(shop) == [("FILE_ARRIVAL", []), ("TABLE_UPDATE", ["revenue_by_day"])]
    assert state(shop)["running"] is state(shop)["waiting"] is None


def test_a_stopped_server_stops_its_update_and_the_next_server_completes_it(shop: Path) -> None:
    """Guards the graceful stop with a real update, which gets the signal from the server alone."""
    first = served(shop)
    pid = wait_for(lambda: state(shop)["running"] and state(shop)["running"]["pid"], "the start")
    wait_for(lambda: updates(shop), "the first event")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=DEADLINE_S)
    stopped = state(shop)
    assert (first.returncode, psutil.pid_exists(pid), stopped["running"]) == (0, False, None)
    second = served(shop)
    try:
        wait_for(lambda: last_state(shop, "arrivals") == "COMPLETED", "the end of the update")
    finally:
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=DEADLINE_S)

    assert len(updates(shop)) >= 2 or stopped["waiting"] is None


@pytest.mark.parametrize("killed", cases(["both"], ["update"]))
def test_a_firing_whose_update_is_killed_is_lost_and_the_next_writes_each_row_once(shop: Path, killed: str) -> None:
    """Guards a kill -9 of the update of a firing, alone and with its server: nothing else ends both at once."""
    service = served(shop)
    pid = wait_for(lambda: state(shop)["running"] and state(shop)["running"]["pid"], "the start")
    wait_for(lambda: updates(shop), "the first event")
    if killed == "both":
        service.kill()
        service.communicate()
    os.kill(pid, signal.SIGKILL)
    if killed == "both":
        service = served(shop)
    try:
        wait_for(lambda: last_state(shop, "arrivals"), "the end of the update")
        first = last_state(shop, "arrivals")
        subprocess.run([sys.executable, "make_data.py", "2"], cwd=shop, check=True)
        wait_for(lambda: last_state(shop, "arrivals") == "COMPLETED", "the next update")
    finally:
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=DEADLINE_S)

    assert first == "LOST"
    # Two days of orders.
    assert DeltaTable(str(shop / "storage" / "tables" / "default" / "orders_raw")).count() == 1000
