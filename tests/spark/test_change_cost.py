"""What a batch of change events does not touch costs nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.model.outcome import UpdateState
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
