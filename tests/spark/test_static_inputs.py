"""Tables and files that a stream is joined with: the newest rows, those of the start, what is listed now and then."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.tiers import EVERYTHING

from headrace.errors import PipelineError, Problems
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

JOINED = """
    @dp.table(name="NAME", spark_conf={"pipelines.trigger.interval": "100 ms", **CONFS})
    def joined():
        events = spark.readStream.schema("id INT").json(f"{spark.conf.get('root')}/in")
        return events.join(NAMES, "id", "left").select("id", "name")
    """
TABLE = "spark.read.format('delta').load(f\"{spark.conf.get('root')}/names\")"
SQL = "spark.sql(f\"WITH n AS (SELECT * FROM delta.`{spark.conf.get('root')}/names`) SELECT * FROM n WHERE id > 0\")"
FOLDER = "spark.read.schema('id INT, name STRING').json(f\"{spark.conf.get('root')}/files\")"


def name_table(pipeline, name):
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "name": [name] * 3})
    write_deltalake(str(pipeline.folder / "names"), rows, mode="overwrite")


START = {"headrace.static_inputs": "start"}


def joining(names, name="joined", **confs):
    return JOINED.replace("NAMES", names).replace("NAME", name).replace("CONFS", repr(confs))


def with_first_rows(pipeline):
    pipeline.settings = replace(pipeline.settings, configuration={"root": str(pipeline.folder)})
    name_table(pipeline, "old")
    pipeline.land("files/1.json", [{"id": 1, "name": "old"}])
    pipeline.land("in/1.json", [{"id": 1}])
    return pipeline


@pytest.fixture
def joined(project):
    """A stream that is joined with names, with the first of two ids there."""
    return lambda names, **confs: with_first_rows(project(joining(names, **confs)))


# What a stream is joined with, its settings, and the name that the second id gets.
CASES = {
    "newest_table": (TABLE, {}, "new"),
    "newest_in_sql": (SQL, {}, "new"),
    "table_of_the_start": (TABLE, START, "old"),
    "in_sql_of_the_start": (SQL, START, "old"),
    "files_of_the_start": (FOLDER, {}, None),
}
if not EVERYTHING:
    CASES = {name: CASES[name] for name in ("newest_in_sql", "table_of_the_start", "files_of_the_start")}


def test_a_batch_joins_the_newest_rows_of_a_static_table_or_those_at_the_start(project):
    text = "".join(joining(names, name, **confs) for name, (names, confs, _) in CASES.items())
    pipeline = with_first_rows(project(text))

    def found():
        return {name: {row["id"]: row["name"] for row in pipeline.rows(name)} for name in CASES}

    with pipeline.continuing() as update:
        update.wait_until(lambda: all(update.states.get(name) is FlowState.RUNNING for name in CASES))
        update.wait_until(lambda: all(1 in names for names in found().values()))
        name_table(pipeline, "new")
        pipeline.land("files/2.json", [{"id": 2, "name": "new"}])
        pipeline.land("in/2.json", [{"id": 2}])
        update.wait_until(lambda: all(2 in names for names in found().values()))

    assert update.result.state is UpdateState.COMPLETED
    assert found() == {name: {1: "old", 2: second} for name, (_, _, second) in CASES.items()}
    # The next start has rows of its own.
    pipeline.land("in/3.json", [{"id": 3}])
    assert pipeline.run("table_of_the_start").state is UpdateState.COMPLETED
    assert found()["table_of_the_start"] == {1: "old", 2: "old", 3: "new"}


@pytest.mark.long(
    guard="tests/spark/test_static_inputs.py::test_a_batch_joins_the_newest_rows_of_a_static_table_or_those_at_the_start"
)
def test_static_rows_pinned_at_the_start_are_refreshed_at_the_next_start(joined):
    pipeline = joined(TABLE, **START)
    pipeline.run()
    name_table(pipeline, "new")
    pipeline.land("in/2.json", [{"id": 2}])

    result = pipeline.run()

    assert sorted(row["name"] for row in result.rows("joined")) == ["new", "old"]


def test_static_files_are_listed_again_at_the_configured_interval(joined):
    pipeline = joined(FOLDER, **{"headrace.static_inputs": "10 ms"})
    rows = lambda: {row["id"]: row["name"] for row in pipeline.rows("joined")}  # noqa: E731 - one line

    with pipeline.continuing() as update:
        update.wait_until(lambda: 1 in rows())
        pipeline.land("files/2.json", [{"id": 2, "name": "new"}])
        # Which batch is the first to see it depends on when the folder is looked at.
        numbers = iter(range(2, 1000))
        update.wait_until(lambda: pipeline.land(f"in/{next(numbers)}.json", [{"id": 2}]) or "new" in rows().values())


def test_a_table_version_that_a_query_names_is_read_in_each_batch(joined):
    versioned = TABLE.replace(".load", ".option('versionAsOf', 0).load")
    pipeline = joined(versioned)
    name_table(pipeline, "new")

    pipeline.run()

    assert [row["name"] for row in pipeline.rows("joined")] == ["old"]


def test_a_static_table_in_a_subquery_cannot_be_pinned_and_is_rejected(joined):
    named = f"spark.sql('SELECT * FROM {{n}} WHERE id IN (SELECT id FROM {{n}})', n={TABLE})"
    pipeline = joined(f"({named})", **START)

    result = pipeline.run()

    assert result.state is UpdateState.FAILED
    assert result.outcome.error["code"] == "FLOW.STATIC_SUBQUERY"


def test_an_invalid_static_inputs_setting_is_rejected(joined):
    pipeline = joined(TABLE, **{"headrace.static_inputs": "sometimes"})

    with pytest.raises((PipelineError, Problems)) as raised:
        pipeline.project.validate()

    assert [error.code for error in raised.value] == ["FLOW.STATIC_INPUTS"]
