"""Lines that are written oddly: what Auto Loader makes of many of them is what Spark's own reader makes of them.

The lines are drawn from few letters, so that quotes, escapes, separators and spaces meet in every way, and always the
same ones. Both sides read one file with a line for each.
"""

from __future__ import annotations

import random

import pytest
from tests.tiers import examples

from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.json.blocks import JsonBlocks
from headrace.autoloader.reading.json.documents import json_documents
from headrace.autoloader.reading.json_scan import ParseOptions
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split
from headrace.model.ddl import parse_struct

pytestmark = pytest.mark.spark

CSV_COLUMNS = ", ".join(f"c{place} STRING" for place in range(6)) + ", _corrupt_record STRING"
LEFT, RIGHT = {"ignoreLeadingWhiteSpace": "true"}, {"ignoreTrailingWhiteSpace": "true"}
# Options, and the letters of the lines that are read with them.
CSV = {
    "as they are": ({}, '"\\,, \tabé'),
    "no escape": ({"escape": ""}, '"\\,, \tab'),
    "quotes that are doubled": ({"escape": '"'}, '"\\,, \tab'),
    "another quote": ({"quote": "'"}, "'\"\\,, \tab"),
    "another escape": ({"escape": "a"}, '"\\,, ab'),
    "no quote": ({"quote": ""}, "'\"\\,, \tab"),
    "no spaces before": (LEFT, '"\\,, \ta\x01'),
    "no spaces behind": (RIGHT, '"\\,, \ta\x01'),
    "no spaces around": ({**LEFT, **RIGHT}, '"\\,, \ta\x01'),
    "no spaces around and no escape": ({**LEFT, **RIGHT, "escape": ""}, '"\\,, \ta'),
    "comments": ({"comment": "#"}, '"\\,, #a'),
    "a word for NULL": ({"nullValue": "a"}, '"\\,, ab'),
    "a word for NULL and no spaces around": ({**LEFT, **RIGHT, "nullValue": "a"}, '"\\,, ab'),
    "tabs": ({"sep": "\t", **LEFT, **RIGHT}, '"\\\t\t ab'),
    "zeros": ({"escape": '"'}, '"\\,\0a '),
    "two bars": ({"sep": "||"}, '"\\|||| ab'),
    "two bars and no spaces around": ({"sep": "||", **LEFT, **RIGHT}, '"\\|||| ab'),
    "two bars and a word for NULL": ({"sep": "||", "nullValue": "a"}, '"\\|||| ab'),
    "a space and a bar": ({"sep": " |"}, '"\\| || ab'),
    "a separator that begins within itself": ({"sep": "aab"}, '"\\aaaabb x'),
}


def csv_lines(options, letters, count):
    draw = random.Random(f"{options}{letters}")
    lines = []
    while len(lines) < count:
        line = "".join(draw.choices(letters, k=draw.randint(1, 12)))
        # With these options alone, Spark's reader fails at spaces that a line begins with.
        if line[0] > " " or RIGHT.items() - options.items() or not LEFT.items() - options.items():
            lines.append(line)
    return lines


def ours(kind, columns, path, options):
    plan = ReadPlan(kind, parse_struct(columns), "/", format_options=options, corrupt_column="_corrupt_record")
    size = path.stat().st_size
    return [row for batch in read_splits(plan, [Split(str(path), size, 0, 0, size)]) for row in batch.to_pylist()]


@pytest.mark.parametrize("case", CSV)
def test_random_csv_lines_are_read_as_spark_reads_them(headrace_session, tmp_path, case):
    options, letters = CSV[case]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(csv_lines(options, letters, examples(few=1000, many=3000))), encoding="utf-8", newline="")

    found = ours("csv", CSV_COLUMNS, path, options)

    spark = headrace_session.read.schema(CSV_COLUMNS).options(**options).csv(str(path)).toArrow().to_pylist()
    assert [(a, b) for a, b in zip(found, spark, strict=True) if a != b and not _is_part(a, b)] == []


def _is_part(ours, spark):
    """Whether a line is marked as a part of a record over several lines, of which Spark says nothing; else the same."""
    return ours["_corrupt_record"] is not None and {**ours, "_corrupt_record": None} == spark


TEXTS = "a STRING, b STRING, c STRING, d STRING, o STRUCT<x: STRING, y: STRING>, _corrupt_record STRING"
TYPES = "a INT, b DOUBLE, c STRING, d BOOLEAN, o STRUCT<x: BIGINT, y: STRING>, _corrupt_record STRING"
LENIENT = (
    *("allowUnquotedFieldNames", "allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter"),
    *("allowUnquotedControlChars", "allowComments"),
)
JSON = {
    "texts": (TEXTS, {}),
    "types": (TYPES, {}),
    "texts with all that may be allowed": (TEXTS, dict.fromkeys(LENIENT, "true")),
    "types with nothing allowed": (TYPES, {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}),
}
WORDS = (
    "1 -1 0 -0 1.5 -0.0 1.50 1e3 1E5 1.5e-7 1e400 1E-400 12345678901234567890 1.0E10 1.5E+3 true false null"
    " 1.2.3 1. 1.5e 1.5e+ - -- +1 .5 -.5 01 -01 00 1e 1e+ 1-2 0x1 1f NaN Infinity -Infinity INF -INF +INF nan"
)
SCALARS = (
    *WORDS.split(),
    *('"x"', '"1.5"', '"é"', '"a\\"b"', '"\\u00e9"', '"\\ud83d"', '"\\x"', "'y'", '"a\tb"', '"\\"b\\":1.5"', '""'),
    *('"NaN"', '"-INF"', "{}", "[]", '{"b":1.5}', "[1, 2.50]", '"/*"', '"\\u12"', '"\x01"', "'\x01'", '"a\u2028b"'),
)
PLAIN = {"a": ("1", "-7"), "b": ("1.5", "2", "1e3"), "c": ('"x"', '"yz"'), "d": ("true", "false")}


def json_line(draw):
    """A record of odd values, or one with a letter too many, too few or in another's place, or both."""
    odd = draw.random() < 0.5
    members = [
        f'"{name}":{draw.choice(SCALARS if odd and draw.random() < 0.4 else values)}' for name, values in PLAIN.items()
    ]
    members = draw.sample(members, draw.randint(1, len(members)))
    if draw.random() < 0.3:
        members.append(f'"o":{{"x":{draw.choice(("1", "25"))},"y":{draw.choice(SCALARS)}}}')
    line = "{" + ",".join([*members, *draw.choices(members, k=draw.random() < 0.1)]) + "}"
    if not odd or draw.random() < 0.3:
        place = draw.randrange(len(line))
        letter = draw.choice(("", line[place] * 2, *"\\\"'{}[],:+-.eE01 \t\x01\x00/#n\x0b\xa0\ufeff"))
        line = draw.choice((line[:place] + letter + line[place + 1 :], letter + line, line + letter, line[: place + 1]))
    return line


def json_lines(seed, count, options):
    draw, parse_options = random.Random(seed), ParseOptions.of(options)
    lines: list[str] = []
    while len(lines) < count:
        line = json_line(draw)
        # An array has as many rows as objects, an empty line none; of what is behind a record Spark says nothing.
        alone = len(list(json_documents(line.removeprefix("\ufeff"), parse_options))) == 1
        if alone and not line.lstrip("\ufeff\t ").startswith("[") and line.strip():
            lines.append(line)
    return lines


def row_behind_plain_ones(plan, line):
    """What a line is where the file's first block was plain, so that nothing but the line says how it is read."""
    plain = b'{"a":1,"b":1.5,"c":"x","d":true,"o":{"x":2,"y":"q"}}'
    reader = JsonBlocks(plan, "a")
    batches = [*reader.read(plain), *reader.read(plain + b"\n" + line.encode())]
    (*_, row) = [row for batch in batches for row in batch.to_pylist()]
    return row


@pytest.mark.parametrize("case", JSON)
def test_random_json_lines_are_read_as_spark_reads_them(headrace_session, tmp_path, case):
    columns, options = JSON[case]
    lines = json_lines(case, examples(few=200, many=1500), options)
    path = tmp_path / "a.json"
    path.write_text("\n".join(["{}", *lines]), encoding="utf-8", newline="")
    plan = ReadPlan("json", parse_struct(columns), "/", format_options=options, corrupt_column="_corrupt_record")

    found = [row_behind_plain_ones(plan, line) for line in lines]

    spark = headrace_session.read.schema(columns).options(**options).json(str(path)).toArrow().to_pylist()[1:]
    # Written out, what is no number is the same on either side.
    differing = [(a, b) for a, b in zip(found, spark, strict=True) if repr(a) != repr(b) and not _is_given_up(a, b)]
    assert differing == []


def _is_given_up(ours, spark):
    """Whether both say that a record cannot be read; Spark may have some of its columns, up to where it breaks."""
    record = spark["_corrupt_record"]
    return record is not None and ours == {**dict.fromkeys(ours), "_corrupt_record": record}
