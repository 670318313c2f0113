"""What --fix changes: the failing programs of the rules, other forms, notebooks, and what it leaves alone."""

from __future__ import annotations

import ast
import io
import json
import textwrap
import tokenize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.lint.catalog import RULES
from headrace.lint.fixes import fix_text
from headrace.lint.lint_files import Selection, lint_text

FIXABLE = {rule.id: rule for rule in RULES if rule.fixable}
# Where the failing program of a rule is one that is not fixed.
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
OTHER_PROGRAMS = {
    "vendor-setting": (
        f'spark.conf.set("{PROVIDER}", "com.databricks.sql.streaming.state.RocksDBStateStoreProvider")',
        f'spark.conf.set("{PROVIDER}", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")',
    )
}
# What the fix leaves different from the program that the rule says to write: the two do not say quite the same.
FIXED_LINES = {
    "stream-cache": 'large = orders.filter("id > 2")',
    "started-twice": '    .toTable("lint_started")\n)',
    "continuous-trigger": '    .trigger(processingTime="1 second")',
    "trigger-value": 'query = orders.writeStream.format("noop").trigger(processingTime="0 seconds").start()',
    "column-precedence": 'some = orders.filter((F.col("customer") == "c1") & (F.col("id") > 4))',
    "status-keys": "    print(query.id)",
    "listener-base-class": (
        "from pyspark.sql.streaming import StreamingQueryListener\n\n\nclass Watcher(StreamingQueryListener):"
    ),
    "unused-suppression": "total = 1 + 1",
}
STREAM = 'rows = spark.readStream.table("t")\n'
WRITER = 'rows.writeStream.format("noop").option("checkpointLocation", "/c")'


def fixed(text, suffix=".py", **options):
    return fix_text(textwrap.dedent(text).lstrip("\n"), suffix, f"a{suffix}", **options)


@pytest.mark.parametrize("rule_id", FIXABLE)
def test_the_failing_program_of_a_fixable_rule_is_fixed(rule_id):
    failing, passing = OTHER_PROGRAMS.get(rule_id, (FIXABLE[rule_id].failing, FIXABLE[rule_id].passing))

    result = fixed(failing)

    assert [finding.rule.id for finding in result.left.findings] == []
    assert {finding.rule.id for finding in result.fixed} == {rule_id}
    if rule_id in FIXED_LINES:
        assert FIXED_LINES[rule_id] in result.text
    else:
        assert result.text == passing


@pytest.mark.parametrize("rule_id", sorted({rule.id for rule in RULES} - set(FIXABLE)))
def test_no_finding_of_another_rule_is_fixed(rule_id):
    failing = next(rule.failing for rule in RULES if rule.id == rule_id)

    assert fixed(failing).text == failing


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("rows.cache()  # keep\nother = 1\n", None, id="a comment would be lost"),
        pytest.param("rows.cache()\nother = 1\n", "other = 1\n", id="a statement of its own"),
        pytest.param("rows = rows.persist()\nother = 1\n", "other = 1\n", id="a name for itself"),
        pytest.param("if True:\n    rows.cache()\n", "if True:\n    pass\n", id="the only statement of a block"),
        pytest.param("rows.cache()", "", id="the last line without an end"),
        pytest.param("a = (\n    rows  # all\n    .cache()\n)\n", "a = (\n    rows  # all\n)\n", id="a comment before"),
        pytest.param("a = (rows\n).cache()\n", "a = (rows\n)\n", id="brackets before the dot"),
        pytest.param("a = rows.cache().select('id')\n", "a = rows.select('id')\n", id="inside a chain"),
        pytest.param("a = rows \\\n    .cache()\n", "a = rows\n", id="a line continued with a backslash"),
        pytest.param("é = 'ü'; a = rows.cache()\n", "é = 'ü'; a = rows\n", id="characters of several bytes"),
        pytest.param(f"q = {WRITER}.start()\nq.status['name'] = 1\n", None, id="a key that is set"),
        pytest.param(f"{WRITER}.trigger( once = True ).start()\n", None, id="blanks around the equals sign"),
        pytest.param(f"ONCE = True\n{WRITER}.trigger(once=ONCE).start()\n", None, id="a value with a name"),
        pytest.param(f'{WRITER}.table("a").start()\n', f'{WRITER}.toTable("a")\n', id="two findings in one chain"),
        pytest.param(f'{WRITER}.saveAsTable("a", mode="append")\n', None, id="arguments of another method"),
        pytest.param(f'q = {WRITER}.toTable("a")\nq.start("/b")\n', None, id="a second start with a path"),
        pytest.param(
            f"q = {WRITER}.start()\nif q.exception:\n    raise q.exception\n",
            f"q = {WRITER}.start()\nif q.exception():\n    raise q.exception()\n",
            id="an exception that is tested and raised",
        ),
        pytest.param(f"q = {WRITER}.start()\nf = q.exception\n", None, id="an exception that may be called later"),
        pytest.param(
            f"q = {WRITER}.start()\nq.processAllAvailable()\na = q.lastProgress['NumInputRows']\n",
            f"q = {WRITER}.start()\nq.processAllAvailable()\na = q.lastProgress['numInputRows']\n",
            id="a key in another case keeps its quotes",
        ),
        pytest.param(
            f"q = {WRITER}.start()\nq.processAllAvailable()\na = q.lastProgress['rows']\n", None, id="a key of many"
        ),
        pytest.param(f"q = {WRITER}.start()\na = q.status.get('id', 1)\n", None, id="a default of its own"),
    ],
)
def test_an_edit_keeps_comments_and_layout_or_is_not_made(program, expected):
    result = fixed(STREAM + program)

    assert result.text == STREAM + (program if expected is None else expected)


def test_a_fix_that_violates_another_rule_is_not_applied_whichever_rules_are_selected():
    endless = next(rule.failing for rule in RULES if rule.id == "never-ending-timeout")
    endless = endless.replace("trigger(availableNow=True)", "trigger(once=True)")

    results = [fixed(endless), fixed(endless, selection=Selection(select=("once-trigger",)))]

    assert [result.text for result in results] == [endless, endless]
    assert [[finding.rule.id for finding in result.refused] for result in results] == [["once-trigger"]] * 2


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("a = 1  # headrace: ignore[stream-cache]", "a = 1"),
        ("a = 1  # headrace: ignore[stream-cache]  # noqa: E501", "a = 1  # noqa: E501"),
        ("a = 1  # noqa: E501  # headrace: ignore[stream-cache]", "a = 1  # noqa: E501"),
        ("# headrace: ignore-file[stream-cache]\na = 1", "a = 1"),
        ("a = 1  # headrace: ignore", "a = 1"),
        ("a = 1  # why headrace: ignore[stream-cache]", None),
        ("a = 1  # headrace: ignore[stream-cash]", None),
        ("b = spark.readStream.table('t').cache()  # headrace: ignore[stream-cache, once-trigger]",
         "b = spark.readStream.table('t').cache()  # headrace: ignore[stream-cache]"),
    ],
)  # fmt: skip
def test_a_comment_that_suppresses_nothing_is_removed_without_its_neighbours(comment, left):
    assert fixed(comment + "\n").text == (comment if left is None else left) + "\n"


def test_an_unused_comment_in_sql_is_removed():
    result = fixed("SELECT 1 -- headrace: ignore[stream-sort]\n", ".sql")

    assert result.text == "SELECT 1\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_a_byte_order_mark_stay(end):
    listener = FIXABLE["listener-base-class"].failing
    program = "\ufeff" + listener.replace("\n", end)

    result = fix_text(program, ".py", "a.py")

    expected = fix_text(listener, ".py", "a.py").text
    assert result.text == "\ufeff" + expected.replace("\n", end)


SOURCE = """\
# Databricks notebook source
rows = spark.readStream.table("t")

# COMMAND ----------

# MAGIC %python
# MAGIC a = rows.cache()

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT 1 -- headrace: ignore[stream-sort]

# COMMAND ----------

b = %time rows.cache()

# COMMAND ----------

c = rows.cache()
"""


def test_cells_of_a_source_notebook_are_fixed_and_their_markers_stay():
    result = fix_text(SOURCE, ".py", "a.py")

    expected = SOURCE.replace("a = rows.cache()", "a = rows").replace("c = rows.cache()", "c = rows")
    assert result.text == expected.replace(" -- headrace: ignore[stream-sort]", "")
    # A timed line is linted without its magic, so its place is not certain.
    assert [finding.location.line for finding in result.left.findings] == [16]


def notebook(*cells, **style):
    document = {
        "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in cells],
        "metadata": {"title": "é"},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, **style) + "\n"


@pytest.mark.parametrize("style", [{"indent": 1, "ensure_ascii": False}, {"indent": 2}, {}], ids=str)
def test_cells_of_a_notebook_are_fixed_and_nothing_else_changes(style):
    before = notebook(["rows = spark.readStream.table('t')\n", "a = 1"], "b = rows.cache()\nc = rows.cache()", **style)

    result = fix_text(before, ".ipynb", "a.ipynb")

    assert result.text == notebook(["rows = spark.readStream.table('t')\n", "a = 1"], "b = rows\nc = rows", **style)
    assert result.left.findings == ()


def test_a_notebook_whose_layout_would_change_is_not_written():
    before = notebook("spark.readStream.table('t').cache()").replace('"metadata"', '  "metadata"')

    result = fix_text(before, ".ipynb", "a.ipynb")

    assert (result.text, len(result.refused)) == (before, 1)


@pytest.mark.parametrize("text", ["a = (\n" + STREAM, '.trigger(once=True).start("/a")\n'])
def test_a_file_that_cannot_be_read_is_not_changed(text):
    result = fix_text(text, ".py", "a.py")

    assert (result.text, len(result.left.problems)) == (text, 1)


def comments_of(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


STATEMENTS = st.sampled_from(
    [
        *(rule.failing for rule in RULES),
        *(rule.passing for rule in RULES),
        "rows.cache()  # keep\n",
        "x = (\n    rows.filter('a')  # some\n    .cache()\n    .select('id')\n)\n",
        "def f():\n    rows.persist()\n",
        f"q = {WRITER}.trigger(once=True).table('a').start()\n",
        "print(f'{q.exception} {q.status[\"id\"]}')\n",
        "# a comment\n\n",
    ]
)


@settings(max_examples=examples(25, 200))
@given(st.lists(STATEMENTS, min_size=1, max_size=3))
def test_a_fixed_program_parses_keeps_its_comments_and_is_not_fixed_again(parts):
    program = STREAM + "\n".join(parts) + "\n"
    before = lint_text(program, ".py", "a.py")

    result = fix_text(program, ".py", "a.py")

    ast.parse(result.text)
    again = fix_text(result.text, ".py", "a.py")
    assert (again.text, again.fixed) == (result.text, ())
    assert len(result.left.findings) <= len(before.findings) - len(result.fixed)
    assert bool(result.fixed) == (result.text != program)
    kept = [text for text in comments_of(program) if "headrace: ignore" not in text]
    assert [text for text in comments_of(result.text) if "headrace: ignore" not in text] == kept
