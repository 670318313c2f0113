"""Versions of snapshots are ordered, and stored without being changed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cdc.snapshot_versions import InvalidSnapshotVersion, SnapshotProgress, is_later, type_of

KINDS = (
    st.integers()
    | st.text()
    | st.floats(allow_nan=False)
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(timezone(timedelta(hours=2))))
    | st.decimals(allow_nan=False, allow_infinity=False)
)


@given(KINDS, st.none() | KINDS)
def test_snapshot_progress_survives_a_json_round_trip(version, before):
    begun = SnapshotProgress(3, version, before)

    assert SnapshotProgress.from_json(json.loads(json.dumps(begun.to_json()))) == begun


@pytest.mark.parametrize(
    ("version", "before", "later"),
    [
        (1, None, True),
        (2, 1, True),
        (1, 1, False),
        ("2026-02", "2026-10", False),
        (date(2026, 2, 1), date(2026, 1, 31), True),
        (Decimal("1.10"), Decimal("1.1"), False),
    ],
)
def test_snapshot_version_is_later_only_if_it_is_greater(version, before, later):
    assert is_later(version, before) is later


@pytest.mark.parametrize(
    ("version", "before"),
    [
        (True, None),
        (None, None),
        ([1], None),
        ("2", 1),
        (datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),  # noqa: DTZ001 - one without a zone
    ],
)
def test_invalid_or_incomparable_snapshot_versions_are_rejected(version, before):
    with pytest.raises(InvalidSnapshotVersion):
        is_later(version, before)


def test_python_type_of_a_snapshot_version_maps_to_its_spark_type():
    assert [type_of(version) for version in (7, "7", date(2026, 1, 1))] == ['"long"', '"string"', '"date"']
