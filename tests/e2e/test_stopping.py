"""Updates that end before they are done: signals, a second update. The next one makes it whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from tests.alert_watch import AlertWatch
from tests.command_line import in_process

from headrace.cli.main import call
from headrace.events.reader import EventReader
from headrace.model.outcome import FlowState
from headrace.settings.load import load_settings

pytestmark = pytest.mark.e2e
HEADRACE = [sys.executable, "-m", "headrace"]
DEADLINE_S = 120.0


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert call(["--quiet", "init", "shop"]) == 0
    return tmp_path / "shop"


def started(shop: Path, *options: str) -> subprocess.Popen[str]:
    """An update in a session of its own, as a terminal would start it."""
    return subprocess.Popen(
        [*HEADRACE, "--output", "json", "run", *options],
        cwd=shop,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(shop: Path) -> dict:
    done = subprocess.run([*HEADRACE, "--output", "json", "run"], cwd=shop, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def wait_until_running(shop: Path, flow: str) -> None:
    wait_until_in(shop, flow, FlowState.RUNNING, FlowState.COMPLETED)


def wait_until_in(shop: Path, flow: str, *wanted: FlowState) -> None:
    reader = EventReader(str(shop / "storage" / "system" / "events"))
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        outcome = reader.outcome() if reader.exists else None
        states = {found.flow: found.state for found in outcome.flows} if outcome else {}
        if states.get(flow) in wanted:
            return
        time.sleep(0.05)
    pytest.fail(f"flow {flow} did not come to {wanted} in {DEADLINE_S:g} s")


def totals(shop: Path) -> dict[str, tuple[int, int, int]]:
    """Rows written, dropped and quarantined by each flow over all updates."""
    counts = EventReader(str(shop / "storage" / "system" / "events")).flow_totals()
    return {
        flow: (count.rows_written, count.rows_dropped, count.rows_quarantined)
        for flow, count in counts.items()
        if flow in ("orders_raw", "orders")
    }


WHOLE = {"orders_raw": (500, 0, 0), "orders": (492, 2, 6)}
# Of what is stopped, the views of gold have no part.
COUNTED = ("--refresh", "orders_raw,orders")


def test_an_interrupt_cancels_an_update_and_the_next_one_completes_its_work(
    shop: Path, headrace_session: SparkSession
) -> None:
    update = started(shop, *COUNTED)
    wait_until_running(shop, "orders_raw")
    os.killpg(update.pid, signal.SIGINT)
    stdout, stderr = update.communicate(timeout=DEADLINE_S)

    assert headrace_session
    assert update.returncode == 130
    # What Spark logs is in a file, and on no terminal.
    assert [word for word in ("Traceback", "\tat ", " WARN ", " ERROR ") if word in stderr] == []
    assert json.loads(stdout)["state"] == "CANCELED"
    assert in_process(shop, "run", *COUNTED).returncode == 0
    assert totals(shop) == WHOLE


def without_java(shop: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command that finds no Java."""
    environ = {**os.environ, "PATH": "", "JAVA_HOME": str(shop / "no-java")}
    return subprocess.run([*HEADRACE, *words], cwd=shop, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.long(
    guard=(
        "tests/unit/cli/test_signals.py::test_sigterm_raises_keyboard_interrupt_as_soon_as_the_command_starts",
        "tests/e2e/test_stopping.py::test_an_interrupt_cancels_an_update_and_the_next_one_completes_its_work",
        "tests/spark/test_continuous.py::test_an_interrupt_cancels_a_continuous_update_that_waits_for_input",
        "tests/unit/project/test_lease.py::test_a_held_lease_refuses_a_second_holder_and_names_the_first",
        "tests/unit/cli/test_verbs.py::test_exit_code_depends_on_the_error",
    )
)
def test_a_continuous_update_refuses_a_second_one_and_completes_by_sigterm_with_all_rows_written(shop: Path) -> None:
    update = started(shop, "--continuous")
    wait_until_in(shop, "revenue_by_day", FlowState.IDLE)
    status, events = (without_java(shop, word, "--output", "json") for word in ("status", "events"))
    assert json.loads(status.stdout)["state"] == "RUNNING", status.stderr
    assert json.loads(events.stdout)[0]["event_type"] == "create_update", events.stderr
    second = subprocess.run([*HEADRACE, "run"], cwd=shop, capture_output=True, text=True, check=False)
    assert (second.returncode, f"Process {update.pid} " in second.stderr) == (3, True), second.stderr
    os.killpg(update.pid, signal.SIGTERM)
    stdout, _ = update.communicate(timeout=DEADLINE_S)

    assert update.returncode == 0
    assert json.loads(stdout)["state"] == "COMPLETED"
    assert totals(shop) == WHOLE


GUARD = (
    "tests/unit/project/test_lease.py::test_a_second_signal_interrupts_batches_and_a_third_calls_the_previous_handler"
)


@pytest.mark.long(guard=GUARD)
def test_sigterm_to_all_processes_completes_a_continuous_update(shop: Path) -> None:
    update = started(shop, "--continuous")
    wait_until_in(shop, "revenue_by_day", FlowState.IDLE)
    # As a service manager does: the JVM, which is in a session of its own, is told as well.
    for process in (*psutil.Process(update.pid).children(recursive=True), psutil.Process(update.pid)):
        # A Python worker may end by itself.
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    stdout, stderr = update.communicate(timeout=DEADLINE_S)

    assert (update.returncode, json.loads(stdout)["state"]) == (0, "COMPLETED"), stderr
    assert totals(shop) == WHOLE


@pytest.mark.long(guard=GUARD)
def test_a_second_sigterm_leaves_no_flow_running(shop: Path) -> None:
    update = started(shop, "--continuous")
    wait_until_running(shop, "orders")
    for _ in range(2):
        update.send_signal(signal.SIGTERM)
        time.sleep(0.3)
    _, stderr = update.communicate(timeout=DEADLINE_S)
    status = json.loads(without_java(shop, "status", "--output", "json").stdout)

    assert update.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert {flow["state"] for flow in status["flows"]} <= {"COMPLETED", "CANCELED"}
    assert finished(shop)["state"] == "COMPLETED"
    assert totals(shop) == WHOLE


def states_seen(shop: Path) -> set[str]:
    """The state of the latest update as the status, the metrics and SQL say it."""
    status = json.loads(without_java(shop, "status", "--output", "json").stdout)["state"]
    metrics = json.loads(without_java(shop, "metrics", "--output", "json").stdout)
    (shown,) = (one["labels"]["state"] for one in metrics if one["name"] == "headrace.update.state")
    query = "SELECT state FROM event_log_updates ORDER BY started_at DESC LIMIT 1"
    (row,) = json.loads(in_process(shop, "--output", "json", "sql", query).stdout)
    return {status, shown, row["state"]}


@pytest.mark.fires("update_lost")
@pytest.mark.long(
    guard=(
        "tests/unit/cli/test_metrics_and_alerts.py::test_metrics_of_a_killed_update_say_that_it_and_its_flows_are_lost",
        "tests/unit/alerts/test_running_again.py::test_a_lost_update_is_resolved_by_the_first_batch_of_the_next_one",
    )
)
def test_a_killed_update_is_lost_at_once_until_the_next_one_has_ended(
    shop: Path, headrace_session: SparkSession
) -> None:
    watch = AlertWatch(load_settings(shop / "pipeline.yml", environ=os.environ))
    update = started(shop, *COUNTED)
    wait_until_running(shop, "orders_raw")
    os.killpg(update.pid, signal.SIGKILL)
    update.communicate(timeout=DEADLINE_S)

    assert headrace_session
    assert watch.open_now() == {"update_lost"}
    assert states_seen(shop) == {"LOST"}
    assert in_process(shop, "run", *COUNTED).returncode == 0
    assert states_seen(shop) == {"COMPLETED"}
    assert watch.open_after(5) == set()
    assert totals(shop) == WHOLE
