"""A failing update is one screen: the user's line first, the trace in a file that it names; the rest goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.command_line import Done, in_own_process, in_process

pytestmark = pytest.mark.e2e

MOST_LINES = 25
PYTHON = """\
from headrace import pipelines as dp
from prices import price
from pyspark.sql import functions as F


@dp.materialized_view
def landing():
    return spark.range(10)


@dp.table
def bronze():
    return spark.readStream.table("landing").select("id", price("id").alias("cents"))


@dp.materialized_view
def silver():
    return spark.read.table("bronze")


@dp.table
@dp.expect("known", "id IS NOT NULL")
@dp.expect_or_fail("small", "id < 5")
def strict():
    return spark.readStream.table("landing")


@dp.materialized_view
def ratio():
    frame = spark.read.table("landing")
    return frame.select(
        "id",
        (F.lit(1) / F.col("id")).alias("ratio"),
    )


@dp.table
def copied():
    return spark.readStream.table("landing")
"""
# Workers get modules in an archive, the pipeline's own files by value.
MODULE = """\
from pyspark.sql import functions as F
from pyspark.sql.types import LongType


def cents(value):
    if value > 3:
        raise ValueError("no price")
    return value * 100


price = F.udf(cents, LongType())
"""
SQL = """\
-- Two lines stand before the query.
CREATE MATERIALIZED VIEW ratio_sql AS
SELECT
  id,
  1 / id AS ratio
FROM landing;
"""
# The first error is that of the first flow in the order of the graph.
PLACES = {
    "bronze": "prices.py:7",
    "strict": "transformations/flows.py:23",
    "ratio": "transformations/flows.py:33",
    "ratio_sql": "transformations/ratio.sql:5",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    (folder / "transformations").mkdir()
    (folder / "pipeline.yml").write_text("name: shop\n")
    (folder / "prices.py").write_text(MODULE)
    (folder / "transformations" / "flows.py").write_text(PYTHON)
    (folder / "transformations" / "ratio.sql").write_text(SQL)
    return folder


@pytest.fixture(scope="module")
def told(headrace_session, project):
    """What the first update prints for a person."""
    assert headrace_session
    return in_process(project, "run")


@pytest.fixture(scope="module")
def document(project, told):
    """What a program is told of that update."""
    assert told.returncode == 1
    return in_process(project, "status", "--output", "json")


def flows(document: Done) -> dict[str, dict[str, object]]:
    return {flow["flow"]: flow for flow in json.loads(document.stdout)["flows"]}


def line_with(start: str, lines: Sequence[str]) -> str:
    return next((line for line in lines if line.startswith(start)), "")


def log_of(done: Done) -> Path:
    return Path(line_with("log: ", done.stdout.splitlines()).removeprefix("log: "))


def test_a_failure_fits_one_screen_and_starts_with_the_users_line(told):
    lines = told.stdout.splitlines()

    assert (told.returncode, told.stderr) == (1, "")
    assert len(lines) <= MOST_LINES
    assert lines[:3] == [
        "prices.py:7",
        'error[FLOW.USER_CODE]: user code of flow "bronze" raised an error',
        "  ValueError: no price",
    ]
    assert lines[3].startswith("  hint: ")


@pytest.mark.long(
    guard=(
        "tests/e2e/test_failing_update.py::test_a_failure_fits_one_screen_and_starts_with_the_users_line",
        "tests/e2e/test_stopping.py::test_an_interrupt_cancels_an_update_and_the_next_one_completes_its_work",
    )
)
def test_a_separate_process_prints_the_same_failure_and_nothing_else(told, project, tmp_path):
    copied = tmp_path / "shop"
    shutil.copytree(project, copied, ignore=shutil.ignore_patterns("storage"))

    done = in_own_process(copied, "run")

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert (len(lines) <= MOST_LINES, lines[:4]) == (True, told.stdout.splitlines()[:4])
    assert "\tat org.apache.spark" in log_of(done).read_text(encoding="utf-8")


@pytest.mark.parametrize("flow", PLACES)
def test_every_failed_flow_names_the_users_line(told, flow):
    reason = line_with(f"{flow}  failed  ", told.stdout.splitlines())

    assert reason.endswith(f"({PLACES[flow]})")


def test_the_printed_log_path_leads_to_the_stack_traces(told):
    text = log_of(told).read_text(encoding="utf-8")

    assert [flow for flow in PLACES if f"flow {flow}\n" not in text] == []
    assert "ValueError: no price" in text
    assert "\tat org.apache.spark" in text


def test_no_stack_trace_reaches_the_terminal(told):
    assert [word for word in ("Traceback", "\tat ", "Caused by", "org.apache.spark") if word in told.stdout] == []


SHAPE = ("update_id", "state", "cause", "started_at", "ended_at", "flows", "error")


def test_json_output_is_one_document_with_the_documented_fields(document):
    outcome = json.loads(document.stdout)

    assert document.returncode == 1
    assert (*outcome,) == (*SHAPE, "inactive")
    assert set(outcome["error"]) == {"code", "message", "detail", "hint", "location", "params"}
    assert (outcome["state"], outcome["error"]["location"]) == ("FAILED", {"file": "prices.py", "line": 7})


def test_dependents_of_a_failed_flow_are_skipped_and_other_flows_complete(told, document):
    states = {name: flow["state"] for name, flow in flows(document).items()}
    table = [words for line in told.stdout.splitlines() if len(words := line.split()) == 6]
    printed = {words[0]: words[1] for words in table if words[1].isupper()}

    assert {name: states[name] for name in PLACES} == dict.fromkeys(PLACES, "FAILED")
    assert (states["silver"], printed["silver"]) == ("SKIPPED", "SKIPPED")
    assert (states["landing"], states["copied"]) == ("COMPLETED", "COMPLETED")
    assert (printed["landing"], printed["copied"]) == ("COMPLETED", "COMPLETED")


def test_a_violated_fail_expectation_writes_nothing_and_is_not_retried(document):
    strict = flows(document)["strict"]

    assert (strict["rows_written"], strict["attempts"]) == (0, 1)


def test_status_shows_the_same_failure(project, told):
    text = in_process(project, "status")

    assert text.returncode == 1
    assert text.stdout.splitlines()[:3] == told.stdout.splitlines()[:3]


@pytest.mark.long(
    guard=(
        "tests/e2e/test_failing_update.py::test_json_output_is_one_document_with_the_documented_fields",
        "tests/e2e/test_failing_update.py::test_status_shows_the_same_failure",
    )
)
def test_a_second_update_fails_the_same_way_and_other_flows_are_up_to_date(headrace_session, project, told):
    assert headrace_session
    assert told.returncode == 1
    again = in_process(project, "run", "--output", "json")
    status = in_process(project, "status", "--output", "json")
    states = {name: flow["state"] for name, flow in flows(again).items()}

    assert (*json.loads(again.stdout),) == SHAPE
    assert {name: states[name] for name in PLACES} == dict.fromkeys(PLACES, "FAILED")
    assert (states["landing"], states["copied"]) == ("UP_TO_DATE", "UP_TO_DATE")
    assert json.loads(status.stdout) == {**json.loads(again.stdout), "inactive": []}
