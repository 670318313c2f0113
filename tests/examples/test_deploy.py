"""The examples for schedulers and service managers, checked without any of them."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from headrace.cli.main import call
from headrace.cli.verbs import VERBS
from headrace.errors import PipelineError
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.outcome import FlowCounts, FlowOutcome, FlowState, Outcome, UpdateState
from headrace.serve.addresses import addresses
from headrace.serve.readiness import TIMEOUT_S
from headrace.settings.settings import DEFAULT_STOP_TIMEOUT_S

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").iterdir())
SERVERS = [DEPLOY / "kubernetes" / "serve.yaml", DEPLOY / "systemd" / "headrace-shop-serve.service"]

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


def calls(file):
    """The commands of an example that call Headrace, in words."""
    if file.suffix == ".yaml":
        commands = list(values_of(yaml.safe_load(file.read_text()), "command"))
    else:
        lines = file.read_text().splitlines()
        commands = [line.partition("=")[2].split() for line in lines if line.startswith("ExecStart=")]
    return [words for words in commands if Path(words[0]).name == "headrace"]


def values_of(document, key):
    """All values of a key, at any depth."""
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    if isinstance(document, dict) and key in document:
        yield document[key]
    for one in inner:
        yield from values_of(one, key)


@pytest.mark.parametrize("file", [*MANIFESTS, *UNITS], ids=lambda file: file.name)
def test_examples_call_verbs_that_exist(file):
    assert [len([word for word in words if word in VERBS]) for words in calls(file)] == [1] * len(calls(file))


@pytest.mark.parametrize("file", SERVERS, ids=lambda file: file.name)
def test_the_server_is_started_with_options_that_exist_where_it_may_listen(file, capsys):
    (words,) = calls(file)
    given = dict(pairwise(words))
    call(["serve", "--help"])
    known = capsys.readouterr().out

    addresses(given["--listen"], given.get("--root-url"))
    assert {word for word in words if word.startswith("--")} - {"--project"} <= set(known.split())
    # Without a file with tokens, the first one would be in a log.
    assert "--token-file" in given


def test_probes_ask_for_what_the_server_answers_and_wait_longer_than_it_does():
    spec = yaml.safe_load((DEPLOY / "kubernetes" / "serve.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    probes = {name: container[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}

    # A storage that does not answer must not start the process again.
    assert {name: probe["httpGet"]["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert probes["readiness"]["timeoutSeconds"] > TIMEOUT_S
    assert container["ports"][0]["name"] == probes["readiness"]["httpGet"]["port"]


def test_the_server_gets_more_time_to_stop_than_it_needs():
    unit = (DEPLOY / "systemd" / "headrace-shop-serve.service").read_text()
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "serve.yaml").read_text())["spec"]["template"]["spec"]
    # The running update, then open pages; docs/how-to/schedules.md.
    needed_s = DEFAULT_STOP_TIMEOUT_S + 45 + 5

    assert int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[1]) > needed_s
    assert pod["terminationGracePeriodSeconds"] > needed_s


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
