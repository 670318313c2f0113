"""Projects of `headrace design` run without an edit: they are valid, an update of the sample completes, tests pass."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from tests.command_line import in_process
from tests.design_matrix import ALERTS_URL, EIGHT, bundles, parsed, requirements_text, written_design
from tests.tiers import ASKED, cases

from headrace.assistant.design.blueprint import DatasetKind
from headrace.assistant.design.design import make_design
from headrace.testing.driver import Pipeline

pytestmark = pytest.mark.spark
EXAMPLES = Path(__file__).parents[2] / "examples" / "design"
FAST = "tests/spark/test_designs.py::test_eight_pairs_run_on_their_sample"
# A campaign takes as many designs as it wants of those that cover all pairs.
ALL = [(f"{number:02}-{name}", one) for number, (name, one) in enumerate(bundles().items(), 1)]
DESIGNS = dict(ALL[: int(ASKED)]) if ASKED else {"kafka": EIGHT["kafka"]}
# What `check` advises for any storage of a test.
DURABLE = "on a durable disk"


@pytest.fixture(autouse=True)
def _receiver_of_alerts(monkeypatch):
    monkeypatch.setenv(ALERTS_URL, "http://127.0.0.1:9/alerts")


def checked(folder):
    """The status of each criterion of the checklist, none of which fails."""
    document = json.loads(in_process(folder, "check", "--output", "json").stdout)
    failing = [one for one in document["criteria"] if one["status"] == "fail"]
    assert [one for one in failing if DURABLE not in one["next"]] == []
    return {one["criterion"]: one["status"] for one in document["criteria"]}


def succeeds(made, folder):
    """The project runs on its sample, its own tests pass, and then no criterion of the checklist fails."""
    run_on_sample(made, folder)
    assert pytest_in(folder) == 0
    assert checked(folder)["fault-tolerance"] == "pass"


def run_on_sample(made, folder):
    """Validate and run the project; each table has rows, and wrong records of the sample are set apart."""
    written_design(made, folder)
    valid = in_process(folder, "validate")
    assert valid.returncode == 0, valid.stdout + valid.stderr
    done = in_process(folder, "run", "--output", "json")
    assert done.returncode == 0, done.stdout + done.stderr

    flows = json.loads(done.stdout)["flows"]
    written = {dataset["dataset"]: 0 for dataset in flows}
    for flow in flows:
        written[flow["dataset"]] += flow["rows_written"]
    stored = {dataset.name for dataset in made.blueprint.datasets if not dataset.kind.is_view}
    assert stored <= set(written)
    assert [name for name in stored if not written[name]] == []
    return flows


@pytest.mark.parametrize("bundle", EIGHT.values(), ids=EIGHT)
def test_eight_pairs_run_on_their_sample(headrace_session, tmp_path, bundle):
    made = make_design(parsed(requirements_text(*bundle)))

    flows = run_on_sample(made, tmp_path / "project")

    checked(tmp_path / "project")
    has_wrong_records = made.blueprint.of(DatasetKind.BRONZE)[0].source.kind != "cdc"
    quarantined = sum(flow["rows_quarantined"] for flow in flows)
    assert (quarantined > 0) == has_wrong_records


@pytest.mark.long(guard=FAST)
@pytest.mark.parametrize("bundle", DESIGNS.values(), ids=DESIGNS)
def test_pairs_pass_their_own_tests(headrace_session, tmp_path, bundle):
    succeeds(make_design(parsed(requirements_text(*bundle))), tmp_path / "project")


@pytest.mark.long(guard=FAST)
@pytest.mark.parametrize(
    ("source", "outputs", "record_format"),
    cases(
        [("files", ("bronze", "scd1"), "csv")],
        [("kafka", ("bronze",), "csv"), ("cdc", ("bronze", "clean", "scd2"), "json")],
    ),
)
def test_each_format_of_records_runs_and_passes_its_generated_tests(
    headrace_session, tmp_path, source, outputs, record_format
):
    text = requirements_text(source, outputs, "15 minutes", record_format)

    run_on_sample(make_design(parsed(text)), tmp_path / "project")
    assert pytest_in(tmp_path / "project") == 0


@pytest.mark.long(guard=FAST)
def test_an_enrichment_reads_the_current_rows_of_an_scd_type_2_table(headrace_session, tmp_path):
    users = {"name": "users", "kind": "cdc", "schema": {"user_id": "STRING", "city": "STRING"}, "keys": ["user_id"]}
    document = yaml.safe_load(requirements_text("files", ["enrich"], "15 minutes"))
    document["sources"][1] = {**users, "events_per_s": 1}
    document["outputs"][0]["with"] = "users_history"
    document["outputs"].append({"name": "users_history", "kind": "scd2", "from": "users"})
    folder = tmp_path / "project"

    run_on_sample(make_design(parsed(yaml.safe_dump(document))), folder)

    pipeline = Pipeline(folder, folder / "storage-sample", os.environ)
    found, events = pipeline.rows("events_enrich"), pipeline.rows("events_bronze")
    assert sorted(row["event_id"] for row in found) == sorted(row["event_id"] for row in events)
    assert {row["city"] is None for row in found} == {True, False}
    assert pytest_in(folder) == 0


@pytest.mark.long(guard=FAST)
def test_real_time_mode_is_tried_on_the_sample_in_batches(headrace_session, tmp_path):
    made = make_design(parsed(requirements_text("kafka", ["sink"], "200 ms")))

    run_on_sample(made, tmp_path / "project")
    assert pytest_in(tmp_path / "project") == 0


@pytest.mark.long(guard=FAST)
@pytest.mark.parametrize("name", cases(["late_events"], ["kafka_bronze", "session_metrics"]))
def test_generated_tests_pass(headrace_session, tmp_path, name):
    made = make_design(parsed((EXAMPLES / f"{name}.yml").read_text(encoding="utf-8")))

    assert pytest_in(written_design(made, tmp_path / "project")) == 0


@pytest.mark.long(guard=FAST)
@pytest.mark.parametrize("policy", cases(["dead-letter"], ["drop", "fail"]))
def test_each_way_with_wrong_records_passes_its_generated_tests(headrace_session, tmp_path, policy):
    text = requirements_text("kafka", ["bronze"], "15 minutes", on_error=policy, history="backfill from /old")
    folder = written_design(make_design(parsed(text)), tmp_path / "project")

    assert in_process(folder, "run").returncode == 0
    assert pytest_in(folder) == 0


@pytest.mark.long(guard=FAST)
def test_the_profile_production_reads_the_real_source(headrace_session, kafka, tmp_path):
    made = make_design(parsed(requirements_text("kafka", ["bronze", "clean"], "15 minutes")))
    folder = written_design(made, tmp_path / "project")
    topic = kafka.topic()
    kafka.produce(
        topic, '{"event_id": "e1", "event_time": "2025-01-01T00:00:00Z", "amount": 7, "event_type": "view"}', "{no"
    )
    words = ("--set", f"events.subscribe={topic}", "--set", f"events.kafka.bootstrap.servers={kafka.servers}")

    done = in_process(folder, "run", "--profile", "production", *words)

    assert done.returncode == 0, done.stdout + done.stderr
    pipeline = Pipeline(folder, folder / "storage", {**os.environ, "HEADRACE_PROFILE": "production"})
    assert [row["event_id"] for row in pipeline.rows("events_clean")] == ["e1"]
    assert len(pipeline.rows("events_bronze_quarantine")) == 1


def pytest_in(folder):
    """The exit code of the project's own tests, run in this process and its session as a user runs them."""
    # Modules have the names of their paths below it, which must differ from those of this repository and other tests.
    root = folder.parents[1]
    options = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:randomly", "--import-mode=importlib")
    return pytest.main([*options, "-c", os.devnull, f"--rootdir={root}", f"--basetemp={folder}-tests", str(folder)])
