"""What a batch of change events does not touch costs nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.model.local_path import local_path
from headrace.model.outcome import FlowState
from headrace.testing.result import table_path

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        event = "id BIGINT, name STRING, day DATE, at TIMESTAMP, city STRING, version INT"
        stream = spark.readStream.schema(event).option("maxFilesPerTrigger", "1")
        return stream.json(str(Path(__file__).parents[1] / "landing"))

    def apply(target, key, partition_cols=None, **more):
        dp.create_streaming_table(target, partition_cols=partition_cols)
        dp.create_auto_cdc_flow(target, "events", keys=[key], sequence_by="version", **more)

    # Each way to find what changes, with keys of several types.
    for key in ("id", "name", "at"):
        apply(f"newest_by_{key}", key)
        apply(f"rebuilt_by_{key}", key, except_column_list=["version"])
        apply(f"versions_by_{key}", key, stored_as_scd_type=2)
    apply("newest_by_day", "day")
    apply("newest_in_days", "day", ["day"])
    apply("newest_in_names", "name", ["name"])
    """
OLD = {"id": 1, "name": "Aß'1", "day": "0700-02-03", "at": "1890-01-02T03:04:05.123456Z"}
NEW = {"id": 100, "name": "Zoë\\'", "day": "2026-02-03", "at": "2026-01-02T03:04:05.654321Z"}
FEW = ("newest_by_at",)
REST = (
    *("newest_by_id", "rebuilt_by_name", "newest_in_days"),
    *("newest_by_name", "rebuilt_by_id", "rebuilt_by_at", "versions_by_id", "versions_by_name", "versions_by_at"),
    *("newest_by_day", "newest_in_names"),
)


def files_of(path, city):
    """The files of a table in which all rows have this city."""
    table = DeltaTable(path)
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
        Path(local_path(uri))
        for file, uri in zip(files, table.file_uris(), strict=True)
        if file["min.city"] == file["max.city"] == city
    ]


@pytest.mark.parametrize(
    "targets",
    [
        FEW,
        pytest.param(
            REST,
            marks=pytest.mark.long(guard="its other cases"),
        ),
    ],
    ids=["few", "rest"],
)
def test_files_without_keys_of_the_batch_are_not_read(project, targets):
    pipeline = project(TEXT)
    pipeline.land("landing/1.json", [{**OLD, "city": "Oslo", "version": 1}])
    pipeline.land("landing/2.json", [{**NEW, "city": "Rome", "version": 1}])
    pipeline.run(*targets)
    tables = [table_path(pipeline.settings.layout, pipeline.settings.naming, name) for name in targets]
    of_old = [file for table in tables for file in files_of(table, "Oslo")]
    for file in of_old:
        file.unlink()
    pipeline.land("landing/3.json", [{**NEW, "city": "Bern", "version": 2}])

    result = pipeline.run(*targets)

    assert len(of_old) == len(targets)
    assert set(result.states.values()) == {FlowState.COMPLETED}
    upserted = {name: result.counts(name).rows_upserted for name in targets}
    assert upserted == {name: 2 if name.startswith("versions") else 1 for name in targets}
