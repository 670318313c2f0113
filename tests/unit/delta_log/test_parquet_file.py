"""Files of few rows: their statistics exclude no row that the file has."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.delta_log.parquet_file import statistics, with_utc_times, write_parquet

TIMES = st.datetimes(max_value=datetime(9999, 12, 31, 23))  # noqa: DTZ001
BOUNDED = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=40).filter(lambda text: text.isprintable()),
    pa.date32(): st.dates(),
    pa.timestamp("us"): TIMES,
    pa.timestamp("us", "UTC"): TIMES.map(lambda at: at.replace(tzinfo=UTC)),
}


@pytest.mark.parametrize("kind", BOUNDED, ids=str)
@given(data=st.data())
def test_each_value_is_within_the_bounds(kind, data):
    values = data.draw(st.lists(st.none() | BOUNDED[kind], min_size=1))
    found = json.loads(statistics(pa.table({"c": pa.array(values, kind)})))

    assert (found["numRecords"], found["nullCount"]["c"]) == (len(values), values.count(None))
    present = [value for value in values if value is not None]
    if "c" in found["minValues"]:
        assert all(read(found["minValues"]["c"], kind) <= as_read(value) for value in present)
    if "c" in found["maxValues"]:
        # Readers of Delta add the millisecond that its writers cut.
        slack = timedelta(milliseconds=1) if pa.types.is_timestamp(kind) else None
        greatest = read(found["maxValues"]["c"], kind)
        assert all(as_read(value) <= (greatest if slack is None else greatest + slack) for value in present)


def read(stored, kind):
    if pa.types.is_date(kind):
        return date.fromisoformat(stored)
    return datetime.fromisoformat(stored) if pa.types.is_timestamp(kind) else as_read(stored)


def as_read(value):
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, math.nan]),
        pa.array([1.0, math.inf]),
        pa.array([Decimal("0.1")]),
        pa.array([None], pa.int64()),
        pa.array([4 * 10**17], pa.int64()).cast(pa.timestamp("us")),
        pa.array([[1]]),
        pa.array([b"a"]),
    ],
    ids=["nan", "infinite", "decimal", "null", "late", "list", "binary"],
)
def test_what_readers_could_misunderstand_has_no_bounds(values):
    found = json.loads(statistics(pa.table({"c": values})))

    assert (found["minValues"], found["maxValues"]) == ({}, {})


def test_a_long_text_has_a_lower_bound_alone():
    found = json.loads(statistics(pa.table({"c": ["b" * 33, "a" * 33]})))

    assert (found["minValues"], found["maxValues"]) == ({"c": "a" * 32}, {})


def test_instants_of_any_zone_are_stored_as_utc(tmp_path):
    at = datetime(2026, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))
    zone = pa.timestamp("us", "Asia/Karachi")
    nested = pa.struct([("at", pa.list_(zone)), ("by", pa.map_(pa.string(), zone))])
    rows = pa.table({"at": pa.array([at], zone), "n": pa.array([{"at": [at], "by": [("a", at)]}], nested)})

    size = write_parquet(tmp_path / "f.parquet", with_utc_times(rows))

    found = pq.read_table(tmp_path / "f.parquet").to_pylist()
    assert size == (tmp_path / "f.parquet").stat().st_size
    assert found == [{"at": at, "n": {"at": [at], "by": [("a", at)]}}]
    assert str(pq.read_schema(tmp_path / "f.parquet").field("at").type) == "timestamp[us, tz=UTC]"
