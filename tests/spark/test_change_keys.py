"""Keys of which a batch's bounds could be told wrongly: each has one row, however often it comes."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from headrace.checkpoints.delta_log import rows_in
from headrace.model.outcome import FlowState
from headrace.testing.result import table_path

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        event = "name STRING, day DATE, at TIMESTAMP, number SMALLINT, version INT"
        rows = spark.readStream.schema(event).json(str(Path(__file__).parents[1] / "landing"))
        return rows.withColumn("name", F.unhex("name").cast("string"))

    for key in ("name", "day", "at", "number"):
        for target, stored in ((f"one_{key}", 1), (f"two_{key}", 2)):
            dp.create_streaming_table(target)
            dp.create_auto_cdc_flow(target, "events", keys=[key], sequence_by="version", stored_as_scd_type=stored)
    """
# Not UTF-8; before the Gregorian calendar; a time whose zone is off by seconds; the least number of its type.
OLD = {"name": "436166E9", "day": "0001-01-01", "at": "1900-01-01T00:00:00.000001Z", "number": -32768}
NEW = {"name": "FF", "day": "9999-12-31", "at": "1900-01-01T00:00:00.000002Z", "number": 32767}


def test_an_event_meets_the_row_of_its_key(project):
    pipeline = project(TEXT, configuration={"spark.sql.session.timeZone": "Europe/Paris"})
    for version, event in enumerate([OLD, NEW, OLD, NEW], 1):
        pipeline.land(f"landing/{version}.json", [{**event, "version": version}])
        result = pipeline.run()
    tables = {name: table_path(pipeline.settings.layout, pipeline.settings.naming, name) for name in result.states}

    assert set(result.states.values()) == {FlowState.COMPLETED}
    found = {name: rows_in(DeltaTable(path)) for name, path in tables.items()}
    assert found == {name: 2 if name.startswith("one") else 4 for name in tables}
