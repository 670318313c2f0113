"""Distinct aggregates of streams: found in each form, and replaced by what gives the same."""

from __future__ import annotations

import pytest

from headrace.lint.lint_files import lint_text

HEAD = """from pyspark.sql import functions as F
rows = spark.readStream.table("a")
"""
KNOWN = "F.array(*[F.col(name).isNotNull() for name in columns])"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ('rows.agg(F.countDistinct("a"))', 'F.size(F.collect_set("a"))'),
        ('rows.groupBy("k").agg(F.count_distinct(F.col("a")))', 'F.size(F.collect_set(F.col("a")))'),
        (
            'rows.select(F.countDistinct("a", rows.b))',
            'F.size(F.collect_set(F.when(F.col("a").isNotNull() & rows.b.isNotNull(), F.struct("a", rows.b))))',
        ),
        (
            "rows.agg(F.countDistinct(*columns))",
            f"F.size(F.collect_set(F.when(F.forall({KNOWN}, lambda known: known), F.struct(*columns))))",
        ),
        ('rows.agg((F.countDistinct("a") / 2).alias("n"))', 'F.size(F.collect_set("a"))'),
        ('rows.selectExpr("count(DISTINCT u.a) AS n")', "size(collect_set(u.a))"),
        ('rows.agg(F.expr("count(DISTINCT upper(a))"))', "size(collect_set(upper(a)))"),
        (
            'rows.selectExpr("count(DISTINCT a, b) FILTER (WHERE c > 1)")',
            "size(collect_set(if(a IS NOT NULL AND b IS NOT NULL, struct(a, b), NULL)) FILTER (WHERE c > 1))",
        ),
        ('spark.sql("SELECT count(DISTINCT u.a) FROM STREAM(t) u")', "size(collect_set(u.a))"),
        ('rows.createTempView("v")\nspark.sql("SELECT count(DISTINCT a) FROM v")', "size(collect_set(a))"),
    ],
)
def test_fix_of_a_distinct_count_is_the_size_of_a_collected_set(text, instead):
    (found,) = lint_text(HEAD + text, ".py", "a.py").findings

    assert found.rule.id == "stream-distinct-count"
    assert found.fix.split("  ")[0] == instead
    assert "approx_count_distinct" in found.fix


@pytest.mark.parametrize(
    "text",
    [
        'rows.agg(F.countDistinct("a"))',
        'rows.select(F.countDistinct("a", "b"))',
        "rows.agg(F.countDistinct(*columns))",
        'rows.agg(F.sum_distinct("a"))',
    ],
)
def test_program_with_the_fix_applied_has_no_findings(text):
    program = HEAD + text
    (found,) = lint_text(program, ".py", "a.py").findings
    line = program.splitlines()[-1]

    mended = program.replace(line[found.column - 1 : found.end_column - 1], found.fix.split("  ")[0])

    assert mended != program
    assert lint_text(mended, ".py", "a.py").findings == ()


@pytest.mark.parametrize(
    "text",
    [
        'counts = [F.count("a"), F.countDistinct("b").alias("n")]\nrows.agg(*counts)',
        'count = F.countDistinct("b")\nrows.select(count)',
        'spark.sql(f"SELECT count(DISTINCT {column}) FROM STREAM t")',
    ],
)
def test_distinct_count_that_cannot_be_rewritten_gets_the_general_fix(text):
    (found,) = lint_text(HEAD + text, ".py", "a.py").findings

    assert found.fix == found.rule.fix


@pytest.mark.parametrize(
    ("head", "in_project"),
    [
        ("import headrace\nspark = headrace.spark_session()\n", False),
        ("from headrace import spark_session as session\nspark = session()\n", False),
        ("from pyspark import pipelines as dp\ndp.create_streaming_table('t')\n", False),
        ("", True),
    ],
)
def test_headrace_session_allows_distinct_counts_but_not_distinct_sums(found, head, in_project):
    counts = 'rows.agg(F.countDistinct("a"))\nspark.sql("SELECT count(DISTINCT a) FROM STREAM t")\n'

    assert found(head + HEAD + counts, in_project=in_project) == []
    assert found(head + HEAD + 'rows.agg(F.sum_distinct("a"))', in_project=in_project) != []


def test_other_headrace_imports_do_not_allow_distinct_counts(found):
    text = "from headrace.delivery import append_once\n" + HEAD + 'rows.agg(F.countDistinct("a"))'

    assert found(text) == [("stream-distinct-count", 4)]


@pytest.mark.parametrize(
    "text",
    [
        'spark.table("a").agg(F.countDistinct("a"))',
        'spark.sql("SELECT count(DISTINCT a) FROM stream.events ORDER BY id")',
        'spark.sql("SELECT count(DISTINCT a) FROM stream WHERE b > 1")',
        'spark.sql("SELECT count(DISTINCT a) FROM `stream` s")',
        'spark.table("a").createTempView("v")\nspark.sql("SELECT count(DISTINCT a) FROM v")',
    ],
)
def test_distinct_counts_of_batches_are_not_reported(found, text):
    assert found(HEAD + text) == []


def test_sql_file_that_reads_streams_is_checked_as_part_of_a_pipeline(found):
    assert found("SELECT count(DISTINCT a) FROM STREAM t", ".sql") == []
