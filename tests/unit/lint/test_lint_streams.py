"""State of streams, joins of streams, and what a stream is refused, beyond the examples of the rules."""

from __future__ import annotations

import pytest

from headrace.lint.lint_files import lint_text

HEAD = """from pyspark.sql import functions as F
rows = spark.readStream.table("a")
marked = rows.withWatermark("at", "1 hour")
table = spark.table("b")
"""
CHECKPOINT = '.option("checkpointLocation", "/c")'


def written(rows, mode="append"):
    return f'{rows}.writeStream.outputMode("{mode}"){CHECKPOINT}.toTable("t")'


@pytest.mark.parametrize(
    ("groups", "instead"),
    [
        ('.groupBy(F.window("at", "1 day")).count()', '.withWatermark("at", "10 minutes")  # before .groupBy'),
        (
            '.groupBy("id").count()',
            '.withWatermark("event_time", "10 minutes").groupBy(F.window("event_time", "1 hour"), "id")',
        ),
        ('.agg(F.max("id"))', '.withWatermark("event_time", "10 minutes").groupBy(F.window("event_time", "1 hour"))'),
    ],
)
def test_fix_of_a_missing_watermark_adds_a_time_window_if_needed(groups, instead):
    (found,) = lint_text(HEAD + written(f"rows{groups}"), ".py", "a.py").findings

    assert (found.rule.id, found.fix) == ("no-watermark", instead)


@pytest.mark.parametrize(
    "text",
    [
        "TIME = 'at'\n" + written("marked.groupBy(F.window(TIME, '1 hour')).count()"),
        "TIME = 'at'\n" + written("rows.withWatermark(TIME, '1 hour').groupBy(F.window(F.col(TIME), '1 day')).count()"),
        "KEYS = ['id', 'at']\n" + written("marked.groupBy(*KEYS).count()"),
        "def start(time):\n    " + written("marked.groupBy(F.window(time, '1 hour')).count()"),
        written("marked.groupBy(F.window(settings.time, '1 hour')).count()"),
        written("marked.groupBy(F.window(settings['time'], '1 hour')).count()"),
        written("marked.groupBy(F.window(f'{prefix}t', '1 hour')).count()"),
        "def hours():\n    return F.window('at', '1 hour')\n" + written("marked.groupBy(hours()).count()"),
        written("marked.dropDuplicates(['id', time])"),
    ],
)
def test_keys_that_may_contain_the_watermark_column_are_not_reported(found, text):
    assert found(HEAD + text) == []


@pytest.mark.parametrize(
    "text",
    [
        "KEY = 'id'\n" + written("marked.groupBy(KEY).count()"),
        written("marked.groupBy(rows.id).count()"),
        written("marked.groupBy(F.col('id').cast('string')).count()"),
        written("marked.dropDuplicates(['id', 'name'])"),
    ],
)
def test_keys_without_the_watermark_column_are_reported_as_unbounded_state(found, text):
    assert [rule for rule, _ in found(HEAD + text)] == ["unbounded-state"]


@pytest.mark.parametrize(
    ("join", "rules"),
    [
        ("marked.join(marked, 'id', 'left')", ["no-watermark"]),
        ("marked.join(marked, rows.id == marked.id, 'full_outer')", ["no-watermark"]),
        ("marked.join(marked, F.expr('a.id = b.id'), how='right')", ["no-watermark"]),
        ("marked.join(marked, ['id', 'at'], 'left')", []),
        ("marked.join(marked, (rows.id == marked.id) & (rows.seen > marked.time), 'left')", []),
        ("marked.join(marked, F.expr('a.id = b.id AND a.x BETWEEN b.x AND b.y'), 'left')", []),
        ("marked.join(marked, condition, 'left')", []),
        ("marked.withColumnRenamed('at', 'time').join(marked, 'id', 'left')", []),
        ("marked.join(marked, 'id')", ["unbounded-state"]),
        ("marked.join(marked, 'id').where('at > seen')", []),
        ("marked.join(table, 'id', 'left')", []),
        ("table.join(marked, 'id', 'left')", ["static-outer-join"]),
        ("table.join(marked, 'id', 'left_anti')", ["static-outer-join"]),
        ("table.join(marked, 'id', 'right')", []),
        ("table.join(marked, 'id')", []),
        ("table.join(marked, 'id', kind)", []),
        ("marked.join(table, 'id', 'right_outer')", ["static-outer-join"]),
        ("marked.join(table, 'id', 'outer')", ["static-outer-join"]),
        ("table.join(table, 'id', 'outer')", []),
    ],
)
def test_unbounded_and_unsupported_stream_joins_are_reported(found, join, rules):
    assert [rule for rule, _ in found(HEAD + join)] == rules


def test_watermark_of_a_static_table_is_ignored(found):
    text = written("rows.join(table.withWatermark('at', '1 hour'), 'id').groupBy('id').count()")

    assert [rule for rule, _ in found(HEAD + text)] == ["no-watermark"]


@pytest.mark.parametrize(
    ("query", "rules"),
    [
        ("SELECT DISTINCT id FROM v", ["no-watermark"]),
        ("SELECT id, count(*) FROM v GROUP BY id", ["no-watermark"]),
        ("SELECT * FROM v ORDER BY id", ["stream-sort"]),
        ("SELECT id, row_number() OVER (ORDER BY id) FROM v", ["stream-window-function"]),
        ("SELECT id FROM v JOIN (SELECT DISTINCT id FROM b) USING (id)", []),
        ("SELECT count(DISTINCT id) FROM b", []),
        ("SELECT * FROM b ORDER BY id", []),
    ],
)
def test_view_of_a_stream_is_a_stream_in_sql(found, query, rules):
    text = f'rows.createOrReplaceTempView("v")\nspark.sql("{query}")'

    assert [rule for rule, _ in found(HEAD + text)] == rules


@pytest.mark.parametrize(
    "text",
    [
        'marked.createOrReplaceTempView("v")\nspark.sql("SELECT DISTINCT id FROM v")',
        'rows.createTempView("v")\ntable.createOrReplaceTempView("v")\nspark.sql("SELECT * FROM v ORDER BY id")',
        'rows.createTempView("v")\n' + written('spark.sql("SELECT id, max(a) FROM v GROUP BY id")', "complete"),
    ],
)
def test_valid_sql_queries_over_views_are_not_reported(found, text):
    assert found(HEAD + text) == []


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (written("marked.groupBy('at').count().orderBy('at')"), ["stream-sort"]),
        (written("marked.groupBy('at').count().orderBy('at')", "complete"), []),
        (written("marked.join(table.groupBy('id').count().orderBy('id'), 'id')"), []),
        ("newest = F.row_number().over(w)\nrows.withColumn('n', newest)", ["stream-window-function"]),
        ("newest = F.row_number().over(w)\ntable.withColumn('n', newest)", []),
        ("rows.sample(0.1)", ["stream-sample"]),
        ("table.sample(0.1)", []),
        ("rows.writeTo('t').append()", ["stream-action"]),
        ("table.writeTo('t').append()", []),
    ],
)
def test_operations_that_streams_do_not_support_are_reported(found, text, rules):
    assert [rule for rule, _ in found(HEAD + text)] == rules


@pytest.mark.parametrize(
    ("condition", "instead"),
    [
        ("F.col('a') & F.col('b') > 0", "F.col('a') & (F.col('b') > 0)"),
        ("F.col('a') > 1 & F.col('b') > 2", "(F.col('a') > 1) & (F.col('b') > 2)"),
        ("(table.a > 1) | table.b == 'x'", "(table.a > 1) | (table.b == 'x')"),
        ("table['a'] == 1 | table['b'] == 2", "(table['a'] == 1) | (table['b'] == 2)"),
        ("table['a'] == 1 & table['b'] == 2 | table['c']", None),
    ],
)
def test_fix_adds_missing_parentheses_to_column_conditions(condition, instead):
    (found,) = lint_text(f"{HEAD}table.filter({condition})", ".py", "a.py").findings

    assert found.rule.id == "column-precedence"
    assert found.fix == (instead or found.rule.fix)


@pytest.mark.parametrize(
    "text",
    [
        "(F.col('a') > 1) & (F.col('b') > 2)",
        "(F.col('a') & F.col('b')) == F.lit(True)",
        "F.col('a') & F.col('b') == F.col('c')",
        "flags & MASK > 0",
        "frame['a'] & frame['b'] > 0",
        "F.col('a') > 1",
    ],
)
def test_conditions_that_may_be_intended_are_not_reported(found, text):
    assert found(f"{HEAD}{text}") == []


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("KINDS = ['insert', 'update']\ntable.filter(F.col('_change_type').isin(KINDS))", ["change-types"]),
        ("KINDS = ['insert', 'delete']\ntable.filter(F.col('_change_type').isin(KINDS))", []),
        ("table.filter(F.col('_change_type').isin(*['insert', 'update']))", ["change-types"]),
        ("made = [(1, F.now())]\nspark.createDataFrame(made)", ["create-data-frame-column"]),
        ("made = [{'at': F.current_timestamp()}]\nspark.createDataFrame(made)", ["create-data-frame-column"]),
        ("made = [{'at': 1}]\nspark.createDataFrame(made)", []),
        ("spark.createDataFrame(made)", []),
    ],
)
def test_values_are_resolved_through_variables(found, text, rules):
    assert [rule for rule, _ in found(HEAD + text)] == rules


@pytest.mark.parametrize(
    ("frame", "begins"),
    [
        ("table", 'F.col("_metadata.file_path")'),
        ("table.filter('a > 1').select('a')", 'F.col("_metadata.file_path")'),
        ("table.union(table)", 'F.col("file")  # created from F.col("_metadata.file_path")'),
        ("table.join(rows, 'id')", 'F.col("file")  # created from F.col("_metadata.file_path")'),
    ],
)
def test_fix_of_input_file_name_uses_metadata_directly_only_where_files_are_read(frame, begins):
    (found,) = lint_text(f"{HEAD}{frame}.withColumn('file', F.input_file_name())", ".py", "a.py").findings

    assert found.fix.startswith(begins)


@pytest.mark.parametrize(
    ("source", "ready"), [("cloudFiles", True), ("kinesis", True), ("pubsub", False), ("pulsar", False)]
)
def test_fix_suggests_headrace_only_for_sources_it_supports(source, ready):
    text = f'spark.readStream.format("{source}").load("/x")'

    (plain,) = lint_text(text, ".py", "a.py").findings
    within = lint_text(text, ".py", "a.py", in_project=True).findings

    assert ("headrace" in plain.fix) is ready
    assert (within == ()) is ready


@pytest.mark.parametrize(
    ("classes", "rules"),
    [
        ("class L(object): ...", ["listener-base-class"]),
        ("class A: ...\nclass L(A): ...", ["listener-base-class"]),
        ("from shop import A\nclass L(A): ...", []),
        ("class A(StreamingQueryListener): ...\nclass L(A): ...", []),
    ],
)
def test_listener_is_recognized_by_its_base_classes(found, classes, rules):
    assert [rule for rule, _ in found(f"{classes}\nspark.streams.addListener(L())")] == rules


CLOCK = """
made = rows.groupBy("id").applyInPandasWithState(count, "id INT", "n INT", "append", {timeout})
made.writeStream{trigger}.option("checkpointLocation", "/c").toTable("t")
"""


@pytest.mark.parametrize(
    ("timeout", "trigger", "rules"),
    [
        ('"ProcessingTimeTimeout"', ".trigger(availableNow=True)", ["never-ending-timeout"]),
        ('"ProcessingTimeTimeout"', '.trigger(processingTime="1 minute")', []),
        ('"EventTimeTimeout"', ".trigger(availableNow=True)", []),
        ("timeout", ".trigger(availableNow=True)", []),
    ],
)
def test_processing_time_timeout_with_available_now_is_reported(found, timeout, trigger, rules):
    assert [rule for rule, _ in found(HEAD + CLOCK.format(timeout=timeout, trigger=trigger))] == rules
