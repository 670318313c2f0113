from __future__ import annotations

import errno
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import InternalError, PipelineError, Problems
from headrace.graph.select import Selection
from headrace.model.maintenance import MaintenanceRequest, Task
from headrace.model.outcome import UpdateCause, UpdateState
from headrace.model.state_rows import Side, StateRequest
from headrace.plan.backfills import BackfillRequest, ReplayRequest


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["validate"], ("validate",)),
        (["dry-run"], ("validate",)),
        (["graph"], ("validate",)),
        (["plan", "--refresh", "a,b", "--refresh", "b"], ("plan", Selection(("a", "b")))),
        (["run"], ("run", (), (), False)),
        (["run", "--refresh", "a", "--full-refresh", "b, c"], ("run", ("a",), ("b", "c"), False)),
        (["run", "--full-refresh-all"], ("run", (), (), True)),
        (["run", "--exclude", "tag:a,b+"], ("run", (), (), False, ("tag:a", "b+"))),
        (["plan", "--full-refresh-all", "--exclude", "a"], ("plan", Selection(full_refresh_all=True, exclude=("a",)))),
        (["run", "--continuous"], ("run", (), (), False, (), False, True)),
        (["run", "--cause", "schedule"], ("run", (), (), False, (), False, None, UpdateCause.SCHEDULE)),
        (["run", "--request-id", "nightly:1"], ("run", (), (), False, (), False, None, "nightly:1")),
        (
            ["run", "--reset-checkpoint", "a=latest,b", "--accept-data-loss"],
            ("run", (), (), False, ("a=latest", "b"), True, None),
        ),
        (
            ["backfill", "a", "--to", "version:3", "--again"],
            ("backfill", BackfillRequest("a", "earliest", "version:3", again=True)),
        ),
        (["sql", "SELECT 1"], ("sql", "SELECT 1", False)),
        (["sql", "DROP TABLE t", "--write"], ("sql", "DROP TABLE t", True)),
        (["sql", "SELECT 1", "--also", "../b", "--also", "c"], ("sql", "SELECT 1", False, "../b", "c")),
        (["sql", "--limit", "5", "--", "--write"], ("sql", "--write", False, 5)),
        (["preview", "orders", "--rows", "3"], ("preview", "orders", 3)),
        (["explain", "orders"], ("explain", "orders")),
        (["state", "show", "orders"], ("state", StateRequest("orders"))),
        (
            [
                "state",
                "show",
                "a",
                "--operator",
                "1",
                "--rows",
                "3",
                "--key",
                "k=1",
                "--key",
                "j=x=y",
                "--side",
                "right",
            ],
            ("state", StateRequest("a", 1, 3, ("k=1", "j=x=y"), Side.RIGHT)),
        ),
        (
            ["state", "show", "a", "--variable", "seen", "--metadata"],
            ("state", StateRequest("a", variable="seen", metadata=True)),
        ),
        (["doctor"], ("diagnose", None)),
        (["doctor", "orders"], ("diagnose", "orders")),
        (["check", "--strict"], ("check",)),
        (["maintain"], ("maintain", MaintenanceRequest())),
        (
            ["maintain", "a", "b", "--dry-run", "--only", "vacuum,compact", "--short-retention"],
            ("maintain", MaintenanceRequest(("a", "b"), (Task.VACUUM, Task.COMPACT), True, True)),  # noqa: FBT003 - fields
        ),
        (["quarantine", "list"], ("quarantine_list",)),
        (
            ["quarantine", "replay", "orders", "--rule", "positive", "--set", "amount=1", "--dry-run"],
            ("preview_replay", ReplayRequest("orders", ("positive",), ("amount=1",))),
        ),
        (["quarantine", "show", "orders"], ("quarantine_show", "orders", 20)),
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_command_calls_the_project_and_prints_one_result(cli: Any, words: list[str], asked: Any, output: str) -> None:
    code, out, err = cli("--output", output, *words)

    assert (code, cli.project.asked) == (0, [asked])
    assert out.strip()
    assert output == "text" or (json.loads(out) is not None and "Traceback" not in err)


def test_global_options_are_accepted_after_the_command(cli: Any) -> None:
    code, out, _ = cli("run", "--profile", "prod", "--output=json", "--project", "there", "--set", "a=b=c")

    assert (code, json.loads(out)["state"]) == (0, "COMPLETED")
    assert cli.opened == [(Path("there"), "prod", {"a": "b=c"})]


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["run", "--refresh", "a", "--full-refresh-all"], ["CLI.CONFLICT"]),
        (["plan", "--refresh", "A,b", "--full-refresh", "a"], ["CLI.OVERLAP"]),
        (["run", "--refresh", ","], ["CLI.USAGE"]),
        (["run", "--exclude", ","], ["CLI.USAGE"]),
        (["run", "--set", "a=1", "--set", "a=2", "--set", "x"], ["CLI.KEY_TWICE", "CLI.NOT_KEY_VALUE"]),
        (["run", "-v", "-q"], ["CLI.CONFLICT"]),
        (["run", "--refresh"], ["CLI.USAGE"]),
        (["preview", "orders", "--rows", "0"], ["CLI.USAGE"]),
        (["graph", "--format", "mermaid"], ["CLI.CONFLICT"]),
        (["replay"], ["CLI.USAGE"]),
        ([], ["CLI.USAGE"]),
    ],
)
def test_invalid_command_line_is_rejected_before_the_project_is_called(
    cli: Any, words: list[str], codes: list[str]
) -> None:
    code, out, _ = cli(*words, "--output", "json")

    found = json.loads(out)
    assert (code, cli.project.asked) == (2, [])
    assert [problem["code"] for problem in found["problems"]] == codes
    assert found["error"] == found["problems"][0]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PipelineError("GRAPH.CYCLE", path="a"), 2),
        (Problems([PipelineError("GRAPH.CYCLE", path="a"), PipelineError("CLI.USAGE", reason="b")]), 2),
        (PipelineError("EVENTS.NOT_READABLE", path="p", reason="r"), 1),
        (PipelineError("SQL.FAILED", reason="r"), 1),
        (PipelineError("VIEW.UNUSABLE", name="v", reason="r"), 1),
        (PipelineError("LEASE.HELD", pid=1, host="h", started_at="then"), 3),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("division by zero"), 1),
        (InternalError("the graph is upside down"), 1),
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_exit_code_depends_on_the_error(cli: Any, error: Exception, code: int, output: str) -> None:
    cli.project.error = error

    found, out, err = cli("validate", "--output", output)

    assert found == code
    assert "Traceback" not in out + err
    assert output == "text" or code == 130 or set(json.loads(out)) == {"error", "problems"}


def test_full_disk_is_reported_with_the_file_that_failed(cli: Any) -> None:
    cli.project.error = OSError(errno.ENOSPC, "No space left on device", "storage/lease.json")

    code, out, _ = cli("validate", "--output", "json")

    error = json.loads(out)["error"]
    assert (code, error["code"], error["detail"]) == (
        1,
        "STORAGE.FULL",
        "No space left on device for storage/lease.json.",
    )


def test_internal_error_prints_one_line_and_writes_its_traceback_to_a_file(cli: Any) -> None:
    cli.project.error = ZeroDivisionError("division by zero")

    _, out, err = cli("validate")

    (line,) = err.splitlines()
    assert line.startswith("error[INTERNAL]: unexpected ZeroDivisionError: division by zero")
    assert "in _ask" in Path(line.rstrip(")").rpartition(" ")[2]).read_text()
    assert not out


@pytest.mark.parametrize("verb", [["explain", "hunter2"], ["explain", "hunter2", "--output", "json"]])
def test_secret_in_command_output_is_redacted(cli: Any, verb: list[str]) -> None:
    cli.project.secret = "hunter2"

    _, out, _ = cli(*verb)

    assert "***" in out
    assert "hunter2" not in out


def test_secret_in_an_internal_error_is_redacted_in_message_and_traceback(cli: Any) -> None:
    cli.project.secret = "hunter2"
    cli.project.error = ZeroDivisionError("hunter2 by zero")

    _, _, err = cli("validate")

    trace = Path(err.strip().rstrip(")").rpartition(" ")[2]).read_text()
    assert "*** by zero" in err
    assert "*** by zero" in trace
    assert "hunter2" not in err + trace


@pytest.mark.parametrize(
    ("state", "code"),
    [(UpdateState.COMPLETED, 0), (UpdateState.FAILED, 1), (UpdateState.CANCELED, 130)],
)
def test_run_exit_code_depends_on_the_update_state(cli: Any, state: UpdateState, code: int) -> None:
    cli.project.state = state

    found, out, err = cli("run", "--output", "json")

    assert (found, json.loads(out)["state"]) == (code, state.value)
    assert "orders  completed  90 rows written, 4 dropped, 6 quarantined, 1.5 s" in err


def test_run_prints_only_its_result_without_a_terminal(cli: Any) -> None:
    _, out, _ = cli("run")

    lines = out.splitlines()
    assert lines[0].startswith("update ")
    assert 'orders: 4 rows violated "valid" (dropped)' in lines


def test_run_prints_more_with_verbose_and_nothing_with_quiet(cli: Any) -> None:
    _, loud, _ = cli("run", "-v")
    _, still, _ = cli("run", "-q")

    lines = loud.splitlines()
    assert 'flow "orders" finished batch 0' in loud
    assert "orders  running" in lines
    assert "orders  completed  90 rows written, 4 dropped, 6 quarantined, 1.5 s" in lines
    assert not still


def test_failed_update_fits_on_a_screen_and_starts_with_the_users_line(cli: Any) -> None:
    cli.project.state = UpdateState.FAILED

    _, out, _ = cli("run")

    lines = out.splitlines()
    assert lines[:2] == ["transformations/silver.py:12", "error[FLOW.FAILED]: it broke"]
    assert "  hint: mend it" in lines
    assert len(lines) <= 25


def test_table_output_escapes_control_characters(cli: Any) -> None:
    _, out, _ = cli("sql", "SELECT 1")

    assert out == " n  s\n--  ---------\n 1  null\n20  x\\x1b[31m\n(2 rows)\n"


def test_explain_needs_no_project_for_an_error_code(cli: Any) -> None:
    _, text, _ = cli("explain", "GRAPH.CYCLE")
    _, value, _ = cli("explain", "GRAPH.CYCLE", "--output", "json")

    assert "fix: " in text
    assert (json.loads(value)["code"], cli.opened) == ("GRAPH.CYCLE", [])


def test_graph_format_json_equals_output_json(cli: Any) -> None:
    _, by_format, _ = cli("graph", "--format", "json")
    _, by_output, _ = cli("--output", "json", "graph")
    _, drawn, _ = cli("graph", "--format", "mermaid")

    assert by_format == by_output
    assert drawn.startswith("flowchart LR")


def test_jars_are_listed_without_a_project(cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))

    code, out, _ = cli("jars", "list", "--output", "json")

    assert (code, cli.opened) == (0, [])
    assert {jar["state"] for jar in json.loads(out)} == {"missing"}


def test_the_version_is_that_of_the_installed_package(cli):
    assert cli("--version")[:2] == (0, f"headrace {version('headrace')}\n")
