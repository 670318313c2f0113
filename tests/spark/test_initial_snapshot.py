"""A new stream over a table of the pipeline gets the rows that the table holds, whichever way it reads them."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable
from tests.crashed_updates import die_in_turn

from headrace.model.outcome import UpdateState
from headrace.testing import Failpoint

pytestmark = pytest.mark.spark

TEXT = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    def one_by_one():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")

    @dp.table
    def from_a_version():
        return spark.readStream.options(startingVersion=1).table("source")

    @dp.table
    def twice():
        reader = spark.readStream
        return reader.table("source").union(reader.table("other"))

    @dp.table(schema="id INT")
    def other():
        return spark.readStream.schema("id INT").json("unused")
    """


@pytest.fixture
def pipeline(project):
    """Two tables of three commits each; of one, a row has been deleted since."""
    made = project(TEXT).given("source", *[[{"id": number}] for number in (1, 2, 3)])
    made.given("other", *[[{"id": number}] for number in (10, 20, 30)]).plan()
    DeltaTable(f"{made.folder}/storage/tables/default/other").delete("id = 20")
    return made


def ids(pipeline, name):
    return sorted(row["id"] for row in pipeline.rows(name))


def test_deleted_rows_are_not_read_and_a_query_can_set_its_starting_version(pipeline):
    result = pipeline.run("from_a_version", "twice")

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert ids(pipeline, "from_a_version") == [2, 3]
    assert ids(pipeline, "twice") == [1, 2, 3, 10, 30]


@pytest.mark.long(
    guard=(
        "tests/unit/storage/test_initial_snapshot.py::test_a_first_batch_interrupted_by_a_crash_is_read_as_planned",
        "tests/spark/test_exactly_once.py::test_no_row_is_lost_or_duplicated_when_an_update_crashes_within_a_batch",
    )
)
@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param([Failpoint.WRITTEN], id="written"),
        pytest.param([Failpoint.COUNTED], id="counted"),
        pytest.param([Failpoint.WRITTEN, Failpoint.COUNTED], id="in turn"),
    ],
)
def test_no_row_is_lost_or_duplicated_when_an_update_crashes_in_its_first_batch(pipeline, deaths):
    die_in_turn(lambda: pipeline.run("one_by_one"), pipeline, *deaths)
    pipeline.given("source", [{"id": 4}]).run("one_by_one")

    assert ids(pipeline, "one_by_one") == [1, 2, 3, 4]
    assert pipeline.plan("one_by_one").empty
