"""Keys of which a batch's bounds could be told wrongly: each has one row, however often it comes."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from headrace.delta_log.tables import count_rows
from headrace.model.outcome import FlowState
from headrace.testing.result import table_path

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        event = "name STRING, day DATE, at TIMESTAMP, number SMALLINT, version INT"
        rows = spark.readStream.schema(event).option("maxFilesPerTrigger", "1")
        rows = rows.json(str(Path(__file__).parents[1] / "landing"))
        return rows.withColumn("name", F.unhex("name").cast("string"))

    for target, stored in (("one", 1), ("two", 2)):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(target, "events", keys={keys}, sequence_by="version", stored_as_scd_type=stored)
    """
# Not UTF-8; before the Gregorian calendar; a time whose zone is off by seconds; the least number of its type.
OLD = {"name": "436166E9", "day": "0001-01-01", "at": "1900-01-01T00:00:00.000001Z", "number": -32768}
NEW = {"name": "FF", "day": "9999-12-31", "at": "1900-01-01T00:00:00.000002Z", "number": 32767}
LONG = pytest.mark.long(guard="its other cases")


@pytest.mark.parametrize(("target", "rows"), [("one", 2), pytest.param("two", 4, marks=LONG)])
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(tuple(OLD), id="all"),
        *[pytest.param((key,), marks=LONG, id=key) for key in OLD],
    ],
)
def test_an_event_with_an_extreme_key_value_matches_its_row(project, keys, target, rows):
    pipeline = project(TEXT.format(keys=list(keys)), configuration={"spark.sql.session.timeZone": "Europe/Paris"})
    for version, event in enumerate([OLD, NEW, OLD, NEW], 1):
        pipeline.land(f"landing/{version}.json", [{**event, "version": version}])

    result = pipeline.run(target)

    table = table_path(pipeline.settings.layout, pipeline.settings.naming, target)
    assert result.states == {target: FlowState.COMPLETED}
    assert count_rows(DeltaTable(table), table) == rows
