"""How late rows came, by the commits of their table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from headrace.delta_log.lateness import measure_lateness
from headrace.errors import PipelineError
from headrace.model.lateness import Lateness, duration

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("day", pa.string())])


def commit(table, *seconds, mode="append"):
    """A commit of rows whose times are so many seconds after noon; None is a row without one."""
    rows = [
        {"id": number, "at": None if second is None else NOON + timedelta(seconds=second), "day": "d"}
        for number, second in enumerate(seconds)
    ]
    write_deltalake(table, pa.Table.from_pylist(rows, schema=SCHEMA), mode=mode)


def looked_at(table, column="at", commits=1000, dropped_share=0.001):
    return measure_lateness(str(table), "default.events", column, commits, dropped_share, NOON.timestamp())


def test_lateness_is_measured_against_the_newest_row_of_earlier_commits(tmp_path):
    commit(tmp_path / "t", 0, 100, 40)
    commit(tmp_path / "t", 90, 130, None)
    commit(tmp_path / "t", 129.5, 70, 200)

    found = looked_at(tmp_path / "t")

    assert (found.commits, found.rows, found.without_time) == (3, 8, 1)
    assert dict(found.late) == {0.5: 1, 10.0: 1, 60.0: 1}


def test_watermark_is_suggested_for_the_allowed_share_of_dropped_rows(tmp_path):
    commit(tmp_path / "t", 1000)
    commit(tmp_path / "t", *([1000] * 96), 991, 975, 970, 0)

    found = looked_at(tmp_path / "t", dropped_share=0.01)

    # A watermark of half a minute passes over what is late by just that.
    assert (found.suggested_s, found.dropped_by(found.suggested_s), found.dropped_by(30)) == (60, 1, 2)
    assert found.describe() == (
        "default.events.at: 101 rows in 2 commits\n"
        "  late: 4 rows (4 %)\n"
        "      50 %  within 0 seconds\n"
        "      90 %  within 0 seconds\n"
        "      99 %  within 30 seconds\n"
        "    99.9 %  within 16 minutes 40 seconds\n"
        "  all rows  within 16 minutes 40 seconds\n"
        '  withWatermark("at", "1 minute") would drop 1 of these rows'
    )


def test_commits_that_delete_rows_are_skipped_and_compaction_is_ignored(tmp_path):
    commit(tmp_path / "t", 0, 100)
    commit(tmp_path / "t", 50)
    table = DeltaTable(tmp_path / "t")
    table.optimize.compact()
    table.delete("id = 1")

    found = looked_at(tmp_path / "t")

    assert (found.commits, found.skipped_commits, dict(found.late)) == (2, 1, {50.0: 1})


def test_skipped_commits_still_advance_the_newest_event_time(tmp_path):
    commit(tmp_path / "t", 0)
    commit(tmp_path / "t", 7200, mode="overwrite")
    commit(tmp_path / "t", 3600)

    assert dict(looked_at(tmp_path / "t").late) == {3600.0: 1}


@pytest.mark.parametrize("commits", [[], [(5, 3)]], ids=["an empty table", "one commit"])
def test_no_watermark_is_suggested_without_a_second_commit_of_rows(tmp_path, commits):
    commit(tmp_path / "t")
    for seconds in commits:
        commit(tmp_path / "t", *seconds)

    found = looked_at(tmp_path / "t")

    assert (found.suggested_s, found.to_json()["rows_passed_over"]) == (None, None)
    assert "withWatermark" not in found.describe()


def test_event_time_ahead_of_the_clock_is_reported(tmp_path):
    commit(tmp_path / "t", 0)
    commit(tmp_path / "t", 3 * 86400)

    found = looked_at(tmp_path / "t")

    assert found.ahead_s == 3 * 86400
    assert "the newest time is 3 days ahead of the clock" in found.describe()


def test_int96_timestamps_of_spark_are_read(tmp_path):
    commit(tmp_path / "t", 0)
    commit(tmp_path / "t", 0)
    (last,) = DeltaTable(tmp_path / "t").get_add_actions().to_struct_array().to_pylist()[:1]
    far = datetime(9999, 12, 31, tzinfo=UTC)
    rows = pa.Table.from_pylist([{"id": 1, "at": far, "day": "d"}], schema=SCHEMA)
    pq.write_table(rows, tmp_path / "t" / last["path"], use_deprecated_int96_timestamps=True)

    found = looked_at(tmp_path / "t")

    assert dict(found.late) == {}


def test_only_the_newest_commits_are_measured(tmp_path):
    for second in (1000, 0, 10, 5):
        commit(tmp_path / "t", second)

    found = looked_at(tmp_path / "t", commits=2)

    assert (found.commits, found.rows, dict(found.late)) == (2, 2, {5.0: 1})


@pytest.mark.parametrize("column", ["id", "gone", "day"])
def test_non_timestamp_column_is_rejected_and_timestamp_columns_are_listed(tmp_path, column):
    commit(tmp_path / "t", 0)

    with pytest.raises(PipelineError) as caught:
        looked_at(tmp_path / "t", column)

    assert (caught.value.code, caught.value.params["known"]) == ("LATENESS.NO_TIME", "at")


@given(
    late=st.dictionaries(st.floats(0.001, 1e7), st.integers(1, 1000), max_size=20),
    on_time=st.integers(1, 5000),
    dropped_share=st.floats(0, 1),
)
def test_suggested_watermark_never_drops_more_than_the_allowed_share(late, on_time, dropped_share):
    rows = on_time + sum(late.values())
    found = Lateness("t", "at", 2, 0, rows, 0, late, dropped_share)

    assert found.dropped_by(found.suggested_s) <= dropped_share * rows


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 seconds"), (1, "1 second"), (0.25, "0.25 seconds"), (5400, "1 hour 30 minutes"), (172800, "2 days")],
)
def test_durations_are_formatted_as_spark_intervals(seconds, text):
    assert duration(seconds) == text
