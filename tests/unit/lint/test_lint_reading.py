"""What a name stands for is followed through a program."""

from __future__ import annotations

import json
import time

import pytest

from headrace.lint.lint_files import lint_text

CACHED = "stream-cache"


@pytest.mark.parametrize(
    "text",
    [
        "spark.readStream.table('t').cache()",
        "a = spark.readStream.table('t')\nb = a.filter('x')\nb.cache()",
        "a = (spark\n    .readStream\n    .table('t')\n)\n(a\n    .select('x')\n    .cache()\n)",
        "spark.readStream \\\n    .table('t') \\\n    .cache()",
        "def rows():\n    return spark.readStream.table('t')\nrows().cache()",
        "def clean(rows):\n    return rows.filter('x')\nclean(spark.readStream.table('t')).cache()",
        "def clean(rows):\n    return rows.cache()\nspark.readStream.table('t').transform(clean)",
        "def keep(rows):\n    rows.cache()\nkeep(rows=spark.readStream.table('t'))",
        "spark.readStream.table('t').transform(lambda rows: rows.cache())",
        "rows.cache()\nrows.writeStream.format('console').start()",
        "rows = load()\nrows.filter('x').cache()\nrows.writeStream.format('console').start()",
        "def main(spark):\n    spark.readStream.table('t').cache()",
        "def main(session: SparkSession):\n    session.readStream.table('t').cache()",
        "s = SparkSession.builder.appName('a').getOrCreate()\ns.readStream.table('t').cache()",
        "a, b = spark.read.table('t'), spark.readStream.table('u')\nb.cache()",
        "if x := spark.readStream.table('t'):\n    x.cache()",
        "with session():\n    try:\n        spark.readStream.table('t').cache()\n    finally:\n        pass",
        "while True:\n    spark.readStream.table('t').cache()",
        "def main():\n    rows().cache()\ndef rows():\n    return spark.readStream.table('t')",
        "def main():\n    rows.cache()\nrows = spark.readStream.table('t')\nmain()",
        "streaming_df.cache()",
        "events_stream.filter('x').persist()",
        "class A:\n    def go(self):\n        self.rows = spark.readStream.table('t')\n        self.rows.cache()",
        "spark.sql('SELECT * FROM STREAM t').cache()",
        "spark.readStream.table('t').createOrReplaceTempView('v')\nspark.sql('SELECT * FROM v').cache()",
        "import dlt\n@dlt.table\ndef a():\n    return dlt.read_stream('t').cache()",
        "from pyspark import pipelines as dp\n@dp.table\ndef a():\n    return dp.read_stream('t').cache()",
        "spark.readStream.table('t').join(spark.table('u'), 'id').cache()",
        "spark.table('u').join(spark.readStream.table('t'), 'id').cache()",
        "spark.readStream.table('t').groupBy('id').count().cache()",
    ],
)
def test_stream_is_tracked_through_the_program(found, text):
    assert CACHED in [rule for rule, _ in found(text)]


@pytest.mark.parametrize(
    "text",
    [
        "a = spark.readStream.table('t')\na = spark.table('t')\na.cache()",
        "def clean(rows):\n    return rows.cache()\nclean(spark.table('t'))",
        "def clean(rows):\n    rows.cache()\nclean(spark.table('t'))\nclean(spark.readStream.table('u'))",
        "def work(batch, number):\n    batch.cache()\nrows.writeStream.foreachBatch(work)",
        "spark = object()\nspark.readStream.table('t').cache()",
        "def f(a):\n    if a:\n        return spark.table('t')\n    return spark.readStream.table('u')\nf(1).cache()",
        "stream = open('x')\nstream.cache()",
        "def f(stream):\n    stream.cache()",
        "upstream.cache()\nstreamer.cache()",
        "def rows():\n    a = spark.readStream.table('t')\ndef others():\n    a.cache()",
    ],
)
def test_value_that_may_be_a_batch_is_not_treated_as_a_stream(found, text):
    assert CACHED not in [rule for rule, _ in found(text)]


@pytest.mark.parametrize(
    "text",
    [
        "q = s.writeStream.format('noop').start()\nq.status['id']",
        "q = s.writeStream.format('noop').start()\nnow = q.status\nnow['id']",
        "for q in spark.streams.active:\n    q.status['id']",
        "[q.status['id'] for q in spark.streams.active]",
        "spark.streams.active[0].status['id']",
        "spark.streams.get('x').status.get('id')",
        "def watch(q):\n    while q.isActive:\n        print(q.lastProgress)\n    q.status['id']",
        "def watch(q: StreamingQuery):\n    q.status['id']",
    ],
)
def test_streaming_query_is_tracked_through_the_program(found, text):
    assert "status-keys" in [rule for rule, _ in found(text)]


def test_methods_and_partial_functions_are_recognized_as_foreach_batch_functions(found):
    text = """
        from functools import partial
        class Sink:
            def write(self, batch, number):
                batch.show()
            def start(self, rows):
                rows.writeStream.option("checkpointLocation", "/c").foreachBatch(self.write).start()
        def other(batch, number, name):
            batch.show()
        rows.writeStream.option("checkpointLocation", "/d").foreachBatch(partial(other, name="x")).start()
        """

    assert found(text) == [("show-in-foreach-batch", 4), ("show-in-foreach-batch", 8)]


def test_constants_are_resolved_in_f_strings_and_paths(found):
    text = """
        import os
        BASE = "/checkpoints"
        rows = spark.readStream.table("t")
        rows.writeStream.option("checkpointLocation", f"{BASE}/a").toTable("a")
        rows.writeStream.option("checkpointLocation", os.path.join(BASE, "a")).toTable("b")
        """

    assert found(text) == [("shared-checkpoint", 5)]


def test_notebook_cells_share_names_and_keep_their_line_numbers():
    cells = ["rows = spark.readStream.table('t')\n", "# MAGIC\n%pip install x\n\nrows.cache()\ndisplay(rows)\n"]
    cells += ["%sql\nSELECT 1;\nSELECT input_file_name() FROM t"]
    document = {"nbformat": 4, "cells": [{"cell_type": "code", "source": cell} for cell in cells]}

    findings = lint_text(json.dumps(document), ".ipynb", "a.ipynb").findings

    places = [(finding.rule.id, str(finding.location), finding.column) for finding in findings]
    assert places == [("stream-cache", "a.ipynb cell 2 line 4", 6), ("input-file-name", "a.ipynb cell 3 line 3", 8)]


def test_notebook_in_source_format_keeps_the_line_numbers_of_its_file():
    text = """# Databricks notebook source
rows = spark.readStream.table("t")

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT sum(DISTINCT id)
# MAGIC FROM STREAM t

# COMMAND ----------

rows.cache()
"""

    findings = lint_text(text, ".py", "a.py").findings

    assert [(f.rule.id, f.location.line) for f in findings] == [("stream-distinct-count", 7), ("stream-cache", 12)]


@pytest.mark.parametrize(
    ("text", "rule_id", "line"),
    [
        ("SELECT 1;\nSELECT *\nFROM system.streaming.queries", "vendor-system-table", 3),
        ("CREATE STREAMING TABLE a AS\nSELECT sum(DISTINCT b) FROM STREAM(c)", "stream-distinct-count", 2),
        ("SELECT * FROM table_changes('t', 1)\nWHERE _change_type IN ('insert',\n'update')", "change-types", 3),
        ("SELECT `_change_type` = 'update' FROM t", "change-types", 1),
        ("CREATE STREAMING TABLE a AS SELECT b,\ncount(*) FROM STREAM c\nGROUP BY b", "no-watermark", 3),
        ("CREATE STREAMING TABLE a AS SELECT * FROM STREAM(c)\nORDER BY b", "stream-sort", 2),
        (
            "SELECT row_number() OVER (PARTITION BY a\nORDER BY b) FROM STREAM c",
            "stream-window-function",
            2,
        ),
    ],
)
def test_sql_files_are_checked(found, text, rule_id, line):
    assert found(text, ".sql") == [(rule_id, line)]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAMING TABLE a AS SELECT * FROM STREAM b JOIN (SELECT c, count(*) FROM d GROUP BY c) e ON b.c = e.c",
        "CREATE STREAMING TABLE a AS SELECT count(*) FROM STREAM b WATERMARK t DELAY OF INTERVAL 1 HOUR GROUP BY t",
        "CREATE MATERIALIZED VIEW a AS SELECT b, count(DISTINCT c) FROM d GROUP BY b ORDER BY b",
        "SELECT stream FROM t GROUP BY stream ORDER BY stream",
    ],
)
def test_valid_sql_has_no_findings(found, text):
    assert found(text, ".sql") == []


def test_finding_in_a_sql_string_has_the_line_inside_the_string(found):
    text = '''
        rows = spark.sql(
            """
            SELECT id,
                   input_file_name() AS file
            FROM t
            """
        )
        '''

    assert found(text) == [("input-file-name", 4)]


@pytest.mark.parametrize(
    ("text", "suffix", "line"),
    [
        ("a = 1\nb = (\nc = 3\n", ".py", 2),
        ("SELECT 1;\nSELECT 'a", ".sql", 2),
        ("{", ".ipynb", None),
    ],
)
def test_unreadable_file_is_reported_with_its_location(text, suffix, line):
    (problem,) = lint_text(text, suffix, f"a{suffix}").problems

    assert problem.location.to_json()["file"] == f"a{suffix}"
    assert problem.location.to_json()["line"] == line


def test_readable_part_of_an_invalid_file_is_checked():
    linted = lint_text("SELECT input_file_name();\nSELECT 'a", ".sql", "a.sql")

    assert [finding.rule.id for finding in linted.findings] == ["input-file-name"]
    assert [problem.code for problem in linted.problems] == ["SQL.SYNTAX"]


def test_finding_columns_count_characters_instead_of_bytes():
    (finding,) = lint_text("é = '日本'; spark.readStream.table('t').cache()", ".py", "a.py").findings

    assert (finding.column, finding.end_column) == (39, 44)


def notebook(*cells):
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": cell} for cell in cells]})


def test_invalid_cell_is_reported_and_the_other_cells_are_checked():
    text = notebook("rows = spark.readStream.table('t')", "ok = 1\nbroken = (\n", "rows.cache()", "also broken")

    linted = lint_text(text, ".ipynb", "a.ipynb")

    assert [(f.rule.id, str(f.location)) for f in linted.findings] == [("stream-cache", "a.ipynb cell 3 line 1")]
    assert [(problem.code, str(problem.location)) for problem in linted.problems] == [
        ("FILE.SYNTAX", "a.ipynb cell 2 line 2"),
        ("FILE.SYNTAX", "a.ipynb cell 4 line 1"),
    ]


@pytest.mark.parametrize(
    ("cell", "line", "column"),
    [
        ("files = !ls /data\nrows.cache()", 2, 6),
        ("files = %sql SELECT 1\nrows.cache()", 2, 6),
        ("kept = %time rows.cache()", 1, 19),
        ("kept = (\n%time\n1)\nrows.cache()", 4, 6),
        ("rows?\nrows.cache()", 2, 6),
        ("?rows\nrows.cache()", 2, 6),
        ("rows.filter??\nrows.cache()", 2, 6),
        ("if rows:\n    %run ./other\nrows.cache()", 3, 6),
        ("if rows:\n    !ls\n    rows.cache()", 3, 10),
        ("for a in b:\n    %pip install c\n\nelse:\n    x = !d\nrows.cache()", 6, 6),
    ],
)
def test_notebook_syntax_in_python_cells_is_parsed(cell, line, column):
    linted = lint_text(notebook("rows = spark.readStream.table('t')", cell), ".ipynb", "a.ipynb")

    assert linted.problems == ()
    assert [(f.rule.id, f.location.line, f.column) for f in linted.findings] == [("stream-cache", line, column)]


def test_cell_that_is_written_to_a_file_is_not_checked():
    linted = lint_text(notebook("%%writefile notes.py\nspark.readStream.table('t').cache()\n)"), ".ipynb", "a.ipynb")

    assert (linted.findings, linted.problems) == ((), ())


def test_line_endings_are_counted_as_in_python():
    linted = lint_text("a = 1\rspark.readStream.table('t').cache()\r\nb = 1", ".py", "a.py")

    assert [(f.location.line, f.column, f.line_text) for f in linted.findings] == [
        (2, 29, "spark.readStream.table('t').cache()")
    ]


def _seconds(text, suffix):
    begin = time.process_time()
    lint_text(text, suffix, f"a{suffix}")
    return time.process_time() - begin


STREAM = """
def start_{n}():
    rows = spark.readStream.table("t{n}")
    rows.writeStream.option("checkpointLocation", "/c/{n}").toTable("u{n}")
"""


@pytest.mark.parametrize(("piece", "suffix"), [(STREAM, ".py"), ("INSERT INTO t VALUES ({n}, 'a');\n", ".sql")])
def test_lint_time_grows_about_linearly_with_file_size(piece, suffix):
    small, large = ("".join(piece.format(n=number) for number in range(count)) for count in (50, 200))

    few = min(_seconds(small, suffix) for _ in range(3))
    many = min(_seconds(large, suffix) for _ in range(2))

    # The square of four is sixteen, the cube sixty-four.
    assert many < 10 * few


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('.trigger(continuous="1 second")', [("continuous-trigger", 1)]),
        (
            "# once\n.trigger(once=True)\n\n# or\n  .trigger(availableNow=False)\n",
            [("once-trigger", 2), ("trigger-value", 5)],
        ),
        ('.option("ignoreChanges", "true")\n.table("t")', [("ignore-changes", 1)]),
        ('.format("delta")\n.start()', []),
    ],
)
def test_method_chain_without_a_start_is_reported_and_checked(text, rules):
    linted = lint_text(text, ".py", "a.py")

    assert [(f.rule.id, f.location.line) for f in linted.findings] == rules
    assert [problem.code for problem in linted.problems] == ["FILE.SYNTAX"]
