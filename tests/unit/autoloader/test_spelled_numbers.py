"""Numbers in columns of text keep their spelling, and each its own, when a block of JSON is read at once."""

from __future__ import annotations

import pytest

from headrace.autoloader.reading.json.blocks import JsonBlocks
from headrace.autoloader.reading.plan import ReadPlan
from headrace.model.ddl import parse_struct

PATH = "/in/a.json"


def plan_of(columns):
    return ReadPlan("json", parse_struct(columns), "/in", rescued_column="_rescued_data")


def rows_of(text, columns):
    return [row for batch in JsonBlocks(plan_of(columns), PATH).read(text.encode()) for row in batch.to_pylist()]


@pytest.fixture
def at_once(monkeypatch):
    """No record is read by itself."""

    def refuse(*_):
        pytest.fail("record by record")

    monkeypatch.setattr("headrace.autoloader.reading.json.blocks.read_records", refuse)
    monkeypatch.setattr("headrace.autoloader.reading.json.fitting_lines.read_lines_singly", refuse)


@pytest.mark.usefixtures("at_once")
def test_values_of_all_types_keep_their_text_beside_strings():
    values = ["1.50", "-2e5", '"x"', "true", '{"q": [1, "a\\"b"]}', "[1,  2.50]", "null", '"p\\": 1.5"']
    lines = [f'{{"p" : {value} ,"n":{{"p":{value}}}}}' for value in values]

    rows = rows_of("\n".join(lines), "p STRING, n STRUCT<p: STRING>")

    texts = ["1.50", "-2e5", "x", "true", '{"q": [1, "a\\"b"]}', "[1,  2.50]", None, 'p": 1.5']
    assert [(row["p"], row["n"]["p"]) for row in rows] == [(text, text) for text in texts]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("lines", "spelled"),
    [
        (['{"p":1.50}', '{"p":null}', "{}", '{"p" : -2E+05 }'], ["1.50", None, None, "-2E+05"]),
        (['{"p":1.50,"s":{"p":7.10}}', '{"s":{"p":8.0}}'], ["1.50", None]),
        (['{"p":1.50,"t":"\\"p\\":2.5"}', '{"p":1e400}'], ["1.50", "1e400"]),
        (['{"p":1.50}', '{"t":"\\\\u0070","p":2.50}'], ["1.50", "2.50"]),
    ],
)
def test_numbers_keep_their_spelling_in_a_block_parsed_by_arrow(lines, spelled):
    rows = rows_of("\n".join(lines), "p STRING, s STRUCT<p: STRING>, t STRING")

    assert [row["p"] for row in rows] == spelled


@pytest.mark.usefixtures("at_once")
def test_nested_numbers_keep_their_spelling_in_a_block_parsed_by_arrow():
    lines = ['{"s":{"p":7.10},"l":[{"q":1.0},{"q":null},{"q":2.50}]}', '{"s":null,"l":[]}', '{"s":{},"l":[{"q":0.10}]}']

    rows = rows_of("\n".join(lines), "s STRUCT<p: STRING>, l ARRAY<STRUCT<q: STRING>>")

    assert [row["s"] for row in rows] == [{"p": "7.10"}, None, {"p": None}]
    assert [row["l"] for row in rows] == [[{"q": "1.0"}, {"q": None}, {"q": "2.50"}], [], [{"q": "0.10"}]]


@pytest.mark.usefixtures("at_once")
def test_numbers_keep_their_spelling_if_a_later_block_contains_strings():
    blocks = JsonBlocks(plan_of("p STRING"), PATH)

    rows = [
        batch.to_pylist()
        for lines in ('{"p":1.50}\n', '{"p":"n/a"}\n{"p":3.0}\n')
        for batch in blocks.read(lines.encode())
    ]

    assert [row["p"] for batch in rows for row in batch] == ["1.50", "n/a", "3.0"]


@pytest.mark.parametrize(
    ("columns", "lines", "name", "texts"),
    [
        (
            "v STRING, alt STRUCT<v: DOUBLE>",
            ['{"v":NaN,"alt":{"v":1.50}}', '{"v":2.50}', '{"v":0.50}'],
            "v",
            ["NaN", "2.50", "0.50"],
        ),
        ("a ARRAY<STRING>, `` STRING", ['{"":1.50,"a":[2.50]}'], "a", [["2.50"]]),
        ("`a/b` STRING, s STRUCT<`a/b`: STRING>", ['{"a\\/b":1.50,"s":{"a/b":2.50}}'], "a/b", ["1.50"]),
    ],
)
def test_numbers_of_fields_with_the_same_name_are_not_confused(columns, lines, name, texts):
    assert [row[name] for row in rows_of("\n".join(lines), columns)] == texts


def test_a_number_under_an_escaped_field_name_is_not_confused_with_others():
    lines = ['{"p":1.50}', '{"\\u0070":3.50}', '{"p":5.50,"s":{"p":6.50}}']

    rows = rows_of("\n".join(lines), "p STRING, s STRUCT<p: DOUBLE>")

    assert [row["p"] for row in rows] == ["1.50", "3.50", "5.50"]
