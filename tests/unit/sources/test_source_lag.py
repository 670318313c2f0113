"""The lag of a source, from the offsets that Spark reports."""

from __future__ import annotations

import json

import pytest

from headrace.model.outcome import SourceLag
from headrace.sources.source_lag import lag_of_offsets


def jdbc(*after):
    return json.dumps({"after": list(after) or None, "begin": None})


@pytest.mark.parametrize(
    ("end", "newest", "expected"),
    [
        ({"row": 70, "since_ms": 1}, {"row": 100, "since_ms": 1}, SourceLag("s", "synthetic", rows=30)),
        (jdbc(40, 1), jdbc(95, 7), SourceLag("s", "jdbc", distance=55.0)),
        (jdbc("1.50"), jdbc("4.00"), SourceLag("s", "jdbc", distance=2.5)),
        (jdbc("2026-11-27T10:00:00"), jdbc("2026-11-27T10:01:30"), SourceLag("s", "jdbc", seconds=90.0)),
        (jdbc("b", 4), jdbc("b", 4), SourceLag("s", "jdbc", rows=0)),
        # Unknown is not zero.
        (jdbc("b", 4), jdbc("c", 1), None),
        (jdbc(), jdbc(5), None),
        (
            {"begin": "AT1", "streams": {"s": {}}},
            {"begin": "AT1", "streams": {"s": {}}, "behind_ms": 1500},
            SourceLag("s", "kinesis", seconds=1.5),
        ),
        ({"begin": "AT1", "streams": {}}, {"begin": "AT1", "streams": {}}, None),
        ({"another": 1}, {"another": 2}, None),
        ("7", "9", None),
        (None, None, None),
        ("{", "{", None),
    ],
)
def test_lag_is_what_the_offsets_tell(end, newest, expected):
    assert lag_of_offsets("s", end, newest) == expected
