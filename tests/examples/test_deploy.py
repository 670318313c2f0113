"""The examples for schedulers and service managers, checked without any of them."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from headrace.cli.verbs import VERBS
from headrace.errors import PipelineError
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.outcome import FlowCounts, FlowOutcome, FlowState, Outcome, UpdateState

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").iterdir())

sys.path.insert(0, str(DEPLOY / "schedulers"))
headrace_result = import_module("headrace_result")
TaskState, task_result = headrace_result.TaskState, headrace_result.task_result

# The newest version whose schemas the validator has.
KUBERNETES = "1.37"

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def update(*flows, state=UpdateState.COMPLETED, error=None):
    return json.dumps(Outcome("u", state, "", NOON, NOON, flows, error).to_json())


def flow(name, dataset, state, written=0):
    expectations = (ExpectationCount("known", Action.DROP, written, 2),)
    return FlowOutcome(
        name, dataset, state, counts=FlowCounts(rows_written=written, rows_dropped=2, expectations=expectations)
    )


def test_changed_datasets_are_the_assets_of_a_task():
    printed = update(
        flow("a", "orders", FlowState.COMPLETED, 30),
        flow("b", "orders", FlowState.COMPLETED, 5),
        flow("c", "cities", FlowState.UP_TO_DATE),
    )

    result = task_result(0, printed)

    (orders,) = result.assets
    assert (result.state, orders.name) == (TaskState.SUCCEEDED, "orders")
    assert orders.rows == {"rows_written": 35, "rows_dropped": 4, "rows_quarantined": 0}
    assert orders.checks == (headrace_result.Check("known", 35, 4),)


def test_a_task_without_new_rows_says_so():
    assert task_result(0, update(flow("a", "orders", FlowState.UP_TO_DATE))).state is TaskState.NOTHING_NEW


@pytest.mark.parametrize(
    ("code", "exit_code", "state"),
    [
        ("LEASE.HELD", 3, TaskState.RETRY),
        ("GRAPH.EMPTY", 2, TaskState.FAILED),
        ("CLUSTER.NO_EXECUTORS", 1, TaskState.RETRY),
    ],
)
def test_an_error_is_retried_if_a_later_attempt_may_pass(code, exit_code, state):
    error = PipelineError(code, **dict.fromkeys(("pid", "host", "started_at", "master", "seconds"), "x")).to_json()

    result = task_result(exit_code, json.dumps({"error": error, "problems": [error]}))

    assert result.state is state
    assert result.message.startswith(f"{code}: ")


def test_a_failed_update_keeps_the_assets_that_changed_before():
    error = PipelineError("GRAPH.EMPTY").to_json()
    flows = (flow("a", "orders", FlowState.COMPLETED, 30), flow("b", "cities", FlowState.FAILED))

    result = task_result(1, update(*flows, state=UpdateState.FAILED, error=error))

    assert (result.state, [asset.name for asset in result.assets]) == (TaskState.RETRY, ["orders"])


def test_a_killed_command_is_retried():
    assert task_result(-9, "").state is TaskState.RETRY


def test_assets_depend_on_the_tables_behind_views():
    kinds = {"orders": "streaming_table", "known": "temporary_view", "cities": "materialized_view"}
    flows = [("orders", []), ("known", ["orders"]), ("cities", ["known", "orders"])]
    graph = {
        "datasets": [{"name": name, "kind": kind} for name, kind in kinds.items()],
        "flows": [{"name": name, "target": name, "inputs": inputs} for name, inputs in flows],
    }

    assert headrace_result.dependencies(json.dumps(graph)) == {"orders": [], "cities": ["orders"]}


@pytest.mark.parametrize("file", sorted((DEPLOY / "schedulers").glob("*.py")), ids=lambda file: file.name)
def test_examples_for_schedulers_use_names_that_exist(file):
    imported = {
        alias.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "headrace_result"
        for alias in node.names
    }

    assert imported <= vars(headrace_result).keys()


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_kubernetes_accepts_the_manifests(file):
    kubernetes_validate.validate(yaml.safe_load(file.read_text()), KUBERNETES, strict=True)


def test_the_schema_of_kubernetes_refuses_a_wrong_key():
    manifest = yaml.safe_load((DEPLOY / "kubernetes" / "continuous.yaml").read_text())
    manifest["spec"]["replica"] = 1

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("file", [*MANIFESTS, *UNITS], ids=lambda file: file.name)
def test_examples_call_verbs_that_exist(file):
    lines = [line for line in file.read_text().splitlines() if line.lstrip().startswith(("command:", "ExecStart="))]
    verbs = [word for line in lines for word in line.replace(",", " ").replace("]", " ").split() if word in VERBS]

    assert len(verbs) == len(lines)


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_systemd_accepts_the_units(file, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace("/srv/shop/.venv/bin/headrace", "/bin/true"))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", tmp_path / file.name],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
