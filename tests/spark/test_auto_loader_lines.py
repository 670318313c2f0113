"""Lines that are written oddly: what Auto Loader makes of many of them is what Spark's own reader makes of them.

The lines are drawn from few letters, so that quotes, escapes, separators and spaces meet in every way, and always the
same ones. Both sides read one file with a line for each.
"""

from __future__ import annotations

import random

import pytest

from headrace.autoloader.ddl import parse_struct
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split

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
def test_odd_lines_of_csv_are_read_as_spark_reads_them(headrace_session, tmp_path, case):
    options, letters = CSV[case]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(csv_lines(options, letters, 3000)), encoding="utf-8", newline="")

    found = ours("csv", CSV_COLUMNS, path, options)

    spark = headrace_session.read.schema(CSV_COLUMNS).options(**options).csv(str(path)).toArrow().to_pylist()
    assert [(a, b) for a, b in zip(found, spark, strict=True) if a != b] == []
