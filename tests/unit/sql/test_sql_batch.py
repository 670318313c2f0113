"""Queries that read streams, as batches."""

from __future__ import annotations

import pytest

from headrace.sql.rewrite import without_streams


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM STREAM t", "SELECT * FROM  t"),
        ("SELECT * FROM STREAM(s.t) AS x", "SELECT * FROM (s.t) AS x"),
        ("SELECT a FROM stream t JOIN u ON t.a = u.a", "SELECT a FROM  t JOIN u ON t.a = u.a"),
        ("SELECT stream FROM t WHERE stream > 1", "SELECT stream FROM t WHERE stream > 1"),
        ("SELECT 'FROM STREAM t' FROM u -- STREAM v", "SELECT 'FROM STREAM t' FROM u -- STREAM v"),
    ],
)
def test_the_stream_keyword_is_removed_and_the_rest_is_unchanged(text, expected):
    assert without_streams(text, lambda _name: None) == expected


def test_a_replacement_view_is_used_only_for_streaming_reads_of_its_table():
    text = "SELECT * FROM STREAM `d`.`t` UNION ALL SELECT * FROM STREAM(u) UNION ALL SELECT * FROM `d`.`t`"

    batch = without_streams(text, lambda name: "part" if name == "`d`.`t`" else None)

    assert batch == "SELECT * FROM  part UNION ALL SELECT * FROM (u) UNION ALL SELECT * FROM `d`.`t`"
