"""What a batch of change events does not touch costs nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.checkpoints.offsets import local_path
from headrace.model.outcome import FlowState, UpdateState
from headrace.testing.result import table_path

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    def apply(target, **more):
        @dp.temporary_view(name=f"{target}_events")
        def events():
            landing = str(Path(__file__).parents[1] / "landing")
            return spark.readStream.schema("id BIGINT, city STRING, version INT").json(landing)

        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(target, f"{target}_events", keys=["id"], sequence_by="version", **more)

    apply("newest")
    apply("rebuilt", except_column_list=["version"])
    apply("versions", stored_as_scd_type=2)
    """


OF_KINDS = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        event = "name STRING, day DATE, at TIMESTAMP, city STRING, version INT"
        return spark.readStream.schema(event).json(str(Path(__file__).parents[1] / "landing"))

    def apply(target, key, **more):
        dp.create_streaming_table(target, **more)
        dp.create_auto_cdc_flow(target, "events", keys=[key], sequence_by="version")

    apply("by_name", "name")
    apply("by_day", "day")
    apply("by_time", "at")
    apply("in_days", "day", partition_cols=["day"])
    apply("in_names", "name", partition_cols=["name"])
    """


@pytest.mark.parametrize("target", ["newest", "rebuilt", "versions"])
def test_files_that_hold_no_key_of_a_batch_are_not_read(project, target):
    pipeline = project(TEXT)
    for number, keys in enumerate([(1, 2, 3), (100, 101, 102)], 1):
        pipeline.land(f"landing/{number}.json", [{"id": key, "city": "Oslo", "version": 1} for key in keys])
        pipeline.run(target)
    path = table_path(pipeline.settings.layout, pipeline.settings.naming, target)
    files = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pylist()
    (of_least,) = [file["path"] for file in files if file["max.id"] == 3]
    Path(path, of_least).unlink()
    pipeline.land("landing/3.json", [{"id": 101, "city": "Rome", "version": 2}])

    result = pipeline.run(target)

    assert result.state is UpdateState.COMPLETED
    assert result.counts(target).rows_upserted == (2 if target == "versions" else 1)


def test_files_are_passed_over_by_keys_that_are_texts_days_and_times_and_by_partitions(project):
    pipeline = project(OF_KINDS)
    old = {"name": "Aß'1", "day": "0700-02-03", "at": "1890-01-02T03:04:05.123456Z", "city": "Oslo", "version": 1}
    new = {"name": "Zoë\\'", "day": "2026-02-03", "at": "2026-01-02T03:04:05.654321Z", "city": "Rome", "version": 1}
    pipeline.land("landing/1.json", [old])
    tables = [table_path(pipeline.settings.layout, pipeline.settings.naming, name) for name in pipeline.run().states]
    of_old = [uri for table in tables for uri in DeltaTable(table).file_uris()]
    pipeline.land("landing/2.json", [new])
    pipeline.run()
    for uri in of_old:
        Path(local_path(uri)).unlink()
    pipeline.land("landing/3.json", [{**new, "version": 2}])

    result = pipeline.run()

    assert set(result.states.values()) == {FlowState.COMPLETED}
    assert {result.counts(name).rows_upserted for name in result.states} == {1}
