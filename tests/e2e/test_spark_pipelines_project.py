"""A project of Spark's own declarative pipelines, as Spark's ``init`` writes it, is one of ours as it is."""

from __future__ import annotations

import json

import pytest
from pyarrow.parquet import read_table
from pyspark.pipelines import init_cli
from tests.command_line import in_process

pytestmark = pytest.mark.e2e

VIEWS = {"example_python_materialized_view", "example_sql_materialized_view"}
SINK = """
from pyspark import pipelines as dp

dp.create_sink("outbox", "parquet", {"path": "outbox"})


@dp.append_flow(target="outbox")
def delivered():
    return spark.readStream.table("example_python_materialized_view")
"""


@pytest.fixture(scope="module")
def project(headrace_session, tmp_path_factory):
    assert headrace_session
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        init_cli.init("shop")
    return folder / "shop"


@pytest.fixture(scope="module")
def outcomes(project):
    """What an update of the unchanged files says, and one behind it, for which a sink and its flow are new."""
    runs = [in_process(project, "run", "--output", "json")]
    (project / "transformations" / "sink.py").write_text(SINK, encoding="utf-8")
    runs.append(in_process(project, "run", "--output", "json"))
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    return [json.loads(run.stdout) for run in runs]


def states(outcome: dict[str, list[dict[str, object]]]) -> dict[object, object]:
    return {flow["flow"]: flow["state"] for flow in outcome["flows"]}


def test_the_first_update_computes_both_views(project, outcomes):
    assert states(outcomes[0]) == dict.fromkeys(VIEWS, "COMPLETED")
    assert {flow["flow"]: flow["rows_written"] for flow in outcomes[0]["flows"]} == {
        "example_python_materialized_view": 10,
        "example_sql_materialized_view": 5,
    }


def test_tables_are_stored_in_the_folder_from_sparks_settings(project, outcomes):
    tables = project / "pipeline-storage" / "tables" / "default"

    assert {table.name for table in tables.iterdir()} == VIEWS


def test_the_views_are_up_to_date_in_the_second_update(outcomes):
    assert states(outcomes[1]) == {**dict.fromkeys(VIEWS, "UP_TO_DATE"), "delivered": "COMPLETED"}


def test_a_sink_receives_the_rows_of_its_flow(project, outcomes):
    (delivered,) = (flow for flow in outcomes[1]["flows"] if flow["flow"] == "delivered")

    assert (
        sum(len(read_table(file)) for file in (project / "outbox").glob("*.parquet")) == delivered["rows_written"] > 0
    )
