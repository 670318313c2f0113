"""Patterns of dates and times; that Spark reads the same is in tests/spark/test_auto_loader_format_parity.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.autoloader.options import loader_options
from headrace.autoloader.reading.conversion.datetime_patterns import date_pattern
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.errors import Problems


@pytest.mark.parametrize(
    ("pattern", "text", "made", "offset"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-01-02T03:04:05.67+02:00", datetime(2024, 1, 2, 3, 4, 5, 670000), 2),  # noqa: DTZ001
        ("dd/MM/yyyy hh:mm a", "02/01/2024 12:30 AM", datetime(2024, 1, 2, 0, 30), None),  # noqa: DTZ001
        ("d MMM yy[ HH]", "2 feb 24", datetime(2024, 2, 2), None),  # noqa: DTZ001
        ("HH", "05", datetime(1970, 1, 1, 5), None),  # noqa: DTZ001
    ],
)
def test_a_text_that_matches_the_pattern_is_parsed(pattern, text, made, offset):
    found, zone = date_pattern(pattern).read(text)

    assert found == made
    assert (zone and zone.utcoffset(None)) == (offset and timedelta(hours=offset))


@pytest.mark.parametrize("text", ["", "2024-02-30", "2024-1-2", "2024-01-02 ", "0000-01-01", "2024-01-02T00"])
def test_a_text_that_does_not_match_the_pattern_is_a_type_mismatch(text):
    with pytest.raises(TypeMismatch):
        date_pattern("yyyy-MM-dd").read(text)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001 - of no zone
def test_a_formatted_time_is_parsed_to_the_same_time(moment):
    text = f"{moment:%Y}".rjust(4, "0") + f"{moment:%m%d %H:%M:%S.%f}Z"

    assert date_pattern("yyyyMMdd HH:mm:ss.SSSSSSX").read(text) == (moment, UTC)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("yyyy-ww", '"ww"'),
        ("E, d MMM", '"E"'),
        ("yyyy-MM-dd z", '"z"'),
        ("dd QQQ", '"QQQ"'),
        ("GGGG", '"GGGG"'),
        ("yyyy'T", "unclosed quote"),
        ("yyyy[MM", 'unclosed "["'),
        ("yyyy]", 'without a "["'),
        ("yyyy{", "reserved"),
        ("'text'", "no part"),
    ],
)
def test_an_unsupported_pattern_is_refused_with_its_letters(pattern, says):
    with pytest.raises(Problems) as raised:
        loader_options({"cloudFiles.format": "json", "dateFormat": pattern})

    (error,) = raised.value
    assert error.params["option"] == "dateFormat"
    assert says in error.params["reason"]
