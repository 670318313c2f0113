"""The lag of a stream behind Delta tables, from Spark's progress."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.graph.analysis import Source, SourceKind
from headrace.spark.monitoring.lag import table_lag_of_progress
from headrace.stores.connections import delta_options


def progress(path, **offset):
    return {"sources": [{"description": f"DeltaSource[file:{path}]", "endOffset": offset and json.dumps(offset)}]}


@pytest.fixture
def table(tmp_path):
    path = str(tmp_path / "a table")
    for rows in (3, 2):
        write_deltalake(path, pa.table({"id": pa.array(range(rows), pa.int64())}), mode="append")
    return path


@pytest.mark.parametrize(
    ("offset", "commits", "rows"),
    [
        ({"reservoirVersion": 1, "index": -1, "isStartingVersion": False}, 1, 2),
        ({"reservoirVersion": 2, "index": -1, "isStartingVersion": False}, 0, 0),
        ({"reservoirVersion": 0, "index": 0, "isStartingVersion": True}, 2, None),
    ],
)
def test_commits_after_the_end_of_the_last_batch_are_counted(table, offset, commits, rows):
    (lag,) = table_lag_of_progress(progress(table, **offset), {0: Source(SourceKind.DATASET, "orders")})

    assert (lag.source, lag.commits, lag.rows) == ("orders", commits, rows)
    assert (lag.oldest_unread_at is None) == (commits == 0)


def test_rows_of_a_change_feed_are_unknown(table):
    feed = Source(SourceKind.DATASET, "orders", reads_feed=True)

    (lag,) = table_lag_of_progress(progress(table, reservoirVersion=1, index=-1), {0: feed})

    assert (lag.commits, lag.rows, lag.size) == (1, None, None)


def test_a_table_outside_of_the_pipeline_is_called_by_its_path(table):
    (lag,) = table_lag_of_progress(progress(table, reservoirVersion=2, index=-1), {})

    assert lag.source == table


def test_a_table_in_a_bucket_has_a_lag(lake):
    write_deltalake(f"{lake}/table", pa.table({"id": [1]}), storage_options=delta_options(lake))
    found = {
        "sources": [{"description": f"DeltaSource[{lake}/table]", "endOffset": '{"reservoirVersion":0,"index":-1}'}]
    }

    (lag,) = table_lag_of_progress(found, {})

    assert (lag.source, lag.commits, lag.rows) == (f"{lake}/table", 1, 1)


def test_other_sources_and_positions_that_are_unknown_have_no_lag(table, tmp_path):
    kafka = {"sources": [{"description": "KafkaV2[Subscribe[t]]", "endOffset": "{}"}]}

    assert table_lag_of_progress(kafka, {}) == ()
    assert table_lag_of_progress(progress(table), {}) == ()
    assert table_lag_of_progress(progress(tmp_path / "gone", reservoirVersion=2, index=-1), {}) == ()
