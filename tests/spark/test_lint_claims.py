"""What the rules of lint say beside their examples: each program is found fault with, and Spark says the same."""

from __future__ import annotations

import itertools
import json

import pytest
from pyspark.sql import functions as F
from tests.stream_end import ends

from headrace.lint.lint_files import lint_text
from headrace.lint.rules import Severity
from headrace.testing.warm import unchanged

pytestmark = pytest.mark.spark

HEAD = """
from pyspark.sql import functions as F
rows = spark.readStream.schema("id INT, name STRING, at TIMESTAMP").json("{folder}/rows")
rates = spark.readStream.format("rate").load()
"""
_NUMBER = itertools.count()


@pytest.fixture
def run(headrace_session, tmp_path):
    """Looks at a program and runs it; gives the rules that it breaks for good, and what Spark said or left behind."""
    (tmp_path / "rows").mkdir()
    rows = ({"id": n, "name": f"n{n}", "at": f"2026-01-01T0{n}:00:00"} for n in range(10))
    (tmp_path / "rows" / "0.json").write_text("\n".join(map(json.dumps, rows)))

    def call(text, severity=Severity.ERROR):
        text = (HEAD + text).replace("{folder}", str(tmp_path)).replace("{new}", f"{tmp_path}/{next(_NUMBER)}")
        found = {finding.rule.id for finding in lint_text(text, ".py", "a.py").findings if finding.severity is severity}
        names = {"spark": headrace_session}
        try:
            exec(compile(text, "a.py", "exec"), names)
        except Exception as error:  # noqa: BLE001 - what a program raises is what is looked at
            return found, f"{type(error).__name__}: {error}"
        return found, names

    with unchanged(headrace_session, tmp_path):
        headrace_session.conf.set("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "true")
        yield call
    for query in headrace_session.streams.active:
        query.stop()


START = '.option("checkpointLocation", "{new}").trigger(availableNow=True).start("{new}").awaitTermination()'
VIEW = 'rows.createOrReplaceTempView("lint_rows")\n'
MARKED = 'rows.withWatermark("at", "1 minute")'
TABLE = 'spark.range(3).withColumn("seen", F.current_timestamp())'
CONTINUOUS = '.option("checkpointLocation", "{new}").trigger(continuous="1 second")'
# Each of the others says the same of one more form.
ALSO = pytest.mark.long(guard="its other cases")
FIXED = [
    *("spark.executor.memory", "spark.executor.instances", "spark.executor.cores", "spark.driver.memory"),
    *("spark.serializer", "spark.jars", "spark.jars.packages", "spark.memory.fraction", "spark.task.cpus"),
    *("spark.dynamicAllocation.enabled", "spark.cores.max", "spark.plugins"),
    *("spark.sql.warehouse.dir", "spark.sql.extensions"),
    *("spark.submit.deployMode", "spark.driver.maxResultSize"),
]


@pytest.mark.parametrize(
    ("rule_id", "text", "said"),
    [
        (
            "stream-distinct-count",
            f'rows.groupBy().agg(F.sum_distinct("id").alias("n")).writeStream.outputMode("complete"){START}',
            "Distinct",
        ),
        *(
            pytest.param(
                *("stream-distinct-count", f'{counts}.writeStream.outputMode("complete"){START}', "Distinct"),
                marks=marks,
            )
            for counts, marks in (
                ('rows.select(F.count_distinct("id", "name").alias("n"))', ALSO),
                ('rows.selectExpr("count(DISTINCT id) AS n")', ALSO),
                ('rows.agg(F.expr("count(DISTINCT id) AS n"))', ALSO),
                ('rows.agg(*[F.countDistinct("id").alias("n")])', ALSO),
                (f'{VIEW}spark.sql("SELECT count(DISTINCT id) AS n FROM lint_rows")', ()),
            )
        ),
        ("stream-cache", "rows.persist()", "streaming sources must be executed"),
        ("stream-cache", "rows.localCheckpoint()", "streaming sources must be executed"),
        *(
            pytest.param(
                *("stream-action", f"rows.{action}", "streaming sources must be executed"),
                marks=() if action in ("collect()", "rdd") else ALSO,
            )
            for action in ("collect()", "show()", "toPandas()", "take(1)", "head()", "first()", "isEmpty()", "rdd")
        ),
        ("stream-action", 'rows.write.format("noop").save()', "CALL_ON_STREAMING_DATASET_UNSUPPORTED"),
        ("stream-sort", f'rows.sortWithinPartitions("id").writeStream{START}', "Sorting is not supported"),
        *(
            (
                "stream-sort",
                f'{sorts}.writeStream.format("noop").outputMode("{mode}"){START}',
                "Sorting is not supported",
            )
            for sorts, mode in (
                ('rows.groupBy("id").count().orderBy("id")', "update"),
                (f'{MARKED}.groupBy(F.window("at", "1 hour")).count().orderBy("count")', "append"),
                (f'{VIEW}spark.sql("SELECT * FROM lint_rows ORDER BY id")', "append"),
            )
        ),
        ("stream-action", 'rows.writeTo("lint_claimed").append()', "CALL_ON_STREAMING_DATASET_UNSUPPORTED"),
        *(
            pytest.param(
                *("no-watermark", f'{MARKED}.join({MARKED}, "id", "{kind}").select("id").writeStream{START}'),
                *("watermark",),
                marks=() if kind == "full" else ALSO,
            )
            for kind in ("left", "right", "full", "leftsemi")
        ),
        (
            "no-watermark",
            f'rows.join({TABLE}.withWatermark("seen", "1 hour"), "id").groupBy("id").count().writeStream{START}',
            "without watermark",
        ),
        *(
            pytest.param(
                *("static-outer-join", f'{join}.select("id").writeStream{START}', "streaming DataFrame"), marks=marks
            )
            for join, marks in (
                (f'{TABLE}.join(rows, "id", "left")', ()),
                *((f'{TABLE}.join(rows, "id", "{kind}")', ALSO) for kind in ("outer", "semi", "anti")),
                (f'rows.join({TABLE}, "id", "right")', ()),
                (f'rows.join({TABLE}, "id", "full")', ALSO),
            )
        ),
        (
            "output-mode",
            'rows.writeStream.outputMode("update").option("checkpointLocation", "{new}").toTable("t")',
            "pdate",
        ),
        ("column-precedence", 'rows.filter((F.col("id") > 1) & F.col("id") > 2)', "DATATYPE_MISMATCH"),
        ("no-watermark", f'rows.dropDuplicatesWithinWatermark(["id"]).writeStream{START}', "without watermark"),
        (
            "no-watermark",
            f'rows.alias("a").join(rows.alias("b"), F.expr("a.id = b.id"), "left").select("a.id").writeStream{START}',
            "without a watermark",
        ),
        ("no-watermark", f"rows.groupBy().count().writeStream{START}", "without watermark"),
        (
            "unbounded-state",
            f'rows.withWatermark("at", "1 hour").groupBy("id").count().writeStream{START}',
            "watermark",
        ),
        ("missing-checkpoint", 'rows.writeStream.toTable("lint_claimed")', "checkpointLocation must be specified"),
        ("missing-checkpoint", 'rows.writeStream.format("parquet").start("{new}")', "checkpointLocation must be"),
        ("missing-target", 'rows.writeStream.format("json").option("checkpointLocation", "{new}").start()', "'path'"),
        ("missing-target", 'rows.writeStream.option("checkpointLocation", "{new}").start()', "'path'"),
        ("writer-table", 'rows.writeStream.saveAsTable("lint_claimed")', "no attribute 'saveAsTable'"),
        ("writer-table", 'rows.writeStream.save("{new}")', "no attribute 'save'"),
        ("trigger-value", "rows.writeStream.trigger(once=False)", "VALUE_NOT_TRUE"),
        ("trigger-value", "rows.writeStream.trigger()", "ONLY_ALLOW_SINGLE_TRIGGER"),
        (
            "trigger-value",
            'rows.writeStream.trigger(once=True, processingTime="1 second")',
            "ONLY_ALLOW_SINGLE_TRIGGER",
        ),
        ("output-mode", f'rows.writeStream.format("parquet").outputMode("update"){START}', "pdate"),
        ("output-mode", f'rows.groupBy().count().writeStream.format("json").outputMode("complete"){START}', "omplete"),
        ("output-mode", f'rows.writeStream.format("delta").outputMode("complete"){START}', "complete"),
        (
            "continuous-trigger",
            f'rates.writeStream.format("parquet"){CONTINUOUS}.start("{{new}}").awaitTermination(30)',
            "ontinuous",
        ),
        (
            "continuous-trigger",
            f'rates.writeStream.format("delta"){CONTINUOUS}.start("{{new}}").awaitTermination(30)',
            "ontinuous",
        ),
        ("continuous-trigger", f"rates.writeStream.foreachBatch(print){CONTINUOUS}.start()", "not supported with cont"),
        *(
            ("missing-path", f"{reads}.load()", "'path' is not specified")
            for reads in (
                *('spark.readStream.format("delta")', 'spark.readStream.format("text")', 'spark.read.format("delta")'),
            )
        ),
        (
            "missing-path",
            'import headrace\nspark.readStream.format("cloudFiles").load()',
            "path for Auto Loader: None",
        ),
        ("missing-schema", 'spark.readStream.csv("{folder}/rows")', "Schema must be specified"),
        ("missing-schema", 'spark.readStream.format("parquet").load("{folder}/rows")', "Schema must be specified"),
        ("create-data-frame-column", 'made = [(1, F.now())]\nspark.createDataFrame(made, ["a", "b"])', "PySpark"),
        ("create-data-frame-column", 'spark.createDataFrame([{"at": F.lit(1)}])', "PySparkTypeError"),
        *(
            pytest.param(
                *("fixed-setting", f'spark.conf.set("{key}", "1")', "CANNOT_MODIFY"),
                marks=() if key in FIXED[::5] else ALSO,
            )
            for key in FIXED
        ),
    ],
)
def test_spark_rejects_code_that_a_lint_rule_reports_as_an_error(run, rule_id, text, said):
    found, error = run(text)

    assert rule_id in found
    assert said in error


KEPT = """
{before}writer = {rows}.writeStream.format("memory").queryName("lint_kept").outputMode("{mode}")
query = writer.trigger(availableNow=True).start()
query.awaitTermination()
kept = sum(operator["numRowsTotal"] for operator in query.lastProgress["stateOperators"])
"""


def keeping(rows, mode):
    """A program that says how many rows the state of a query has; *rows* may begin with a view."""
    return KEPT.format(before=rows[: rows.rfind("\n") + 1], rows=rows[rows.rfind("\n") + 1 :], mode=mode)


@pytest.mark.parametrize(
    ("rule_id", "rows", "mode", "kept"),
    [
        ("unbounded-state", 'rows.dropDuplicates(["id"])', "append", 10),
        ("unbounded-state", f'{MARKED}.groupBy("id").count()', "update", 10),
        ("no-watermark", 'rows.groupBy("id").count()', "update", 10),
        pytest.param(*("no-watermark", 'rows.groupBy(F.window("at", "1 hour")).count()', "complete", 10), marks=ALSO),
        pytest.param(
            *("no-watermark", f'{VIEW}spark.sql("SELECT id, count(*) FROM lint_rows GROUP BY id")', "update", 10),
            marks=ALSO,
        ),
        ("no-watermark", f'{VIEW}spark.sql("SELECT DISTINCT id FROM lint_rows")', "update", 10),
        ("unbounded-state", f'{MARKED}.join({MARKED}.drop("name"), "id")', "append", 20),
        pytest.param(
            *("unbounded-state", 'rows.join(rows.withColumnRenamed("name", "other"), "id")', "append", 20), marks=ALSO
        ),
    ],
)
def test_queries_reported_for_unbounded_state_keep_all_their_state(run, rule_id, rows, mode, kept):
    found, names = run(keeping(rows, mode), Severity.WARNING)

    assert rule_id in found
    assert isinstance(names, dict), names
    assert names["kept"] == kept


@pytest.mark.parametrize(
    ("rows", "mode"),
    [
        (f'{MARKED}.groupBy(F.window("at", "1 minute")).count()', "append"),
        (f'{MARKED}.dropDuplicates(["id", "at"])', "append"),
        (f'{MARKED}.join({MARKED}.drop("name"), ["id", "at"])', "append"),
    ],
)
def test_queries_not_reported_for_unbounded_state_drop_their_state(run, rows, mode):
    found, names = run(keeping(rows, mode), Severity.WARNING)

    assert found == set()
    # Of each side of a join, the newest row waits.
    assert names["kept"] <= 2


def test_a_foreach_batch_stream_without_a_checkpoint_reprocesses_everything(run):
    text = """
seen = []
for start in range(2):
    query = rows.writeStream.foreachBatch(lambda batch, number: seen.append(batch.count())).trigger(availableNow=True)
    query.start().awaitTermination()
"""

    found, names = run(text, Severity.WARNING)

    assert "missing-checkpoint" in found
    assert names["seen"] == [10, 10]


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        ("spark.default.parallelism", lambda spark: spark.sparkContext.defaultParallelism),
        ("spark.master", lambda spark: spark.sparkContext.master),
        ("spark.app.name", lambda spark: spark.sparkContext.appName),
        ("spark.local.dir", lambda spark: spark.sparkContext.getConf().get("spark.local.dir")),
    ],
)
def test_settings_reported_as_without_effect_change_nothing(run, headrace_session, key, effect):
    before = effect(headrace_session)

    found, names = run(f'spark.conf.set("{key}", "7")', Severity.WARNING)

    assert "setting-without-effect" in found
    assert effect(names["spark"]) == before


@pytest.mark.parametrize(
    "counts",
    [
        'F.countDistinct("a")',
        pytest.param('F.countDistinct("a", F.col("b"))', marks=ALSO),
        "F.countDistinct(*columns)",
        'F.sum_distinct("c")',
        pytest.param("count(DISTINCT t.a)", marks=ALSO),
        "count(DISTINCT t.a, upper(b)) FILTER (WHERE c > 1)",
        pytest.param("sum(DISTINCT c)", marks=ALSO),
    ],
)
def test_the_suggested_fix_for_a_distinct_aggregate_returns_the_same_result(headrace_session, counts):
    rows = [("x", "1", 1), ("x", None, 2), ("x", "1", 2), ("y", "2", 4), (None, "2", 4)]
    table = headrace_session.createDataFrame(rows, "a STRING, b STRING, c INT").alias("t")
    in_sql = "DISTINCT" in counts
    column = f"F.expr({counts!r})" if in_sql else counts
    text = f"from pyspark.sql import functions as F\nspark.readStream.table('t').select({column})"
    names = {"F": F, "columns": ["a", "b"]}

    (found,) = lint_text(text, ".py", "a.py").findings
    instead = F.expr(found.fix) if in_sql else eval(found.fix, names)

    expected = F.expr(counts) if in_sql else eval(counts, names)
    assert found.rule.id == "stream-distinct-count"
    assert table.select(instead).first()[0] == table.select(expected).first()[0]


ENDLESS = """
from pyspark.sql.streaming import StatefulProcessor


class Nothing(StatefulProcessor):
    def init(self, handle):
        self.handle = handle

    def handleInputRows(self, key, rows, timers):
        yield from ()

    def close(self):
        pass


made = rows{mark}.groupBy("name").{call}(Nothing(), "id INT", "append", "{mode}")
query = made.writeStream.format("noop").option("checkpointLocation", "{{new}}").trigger(availableNow=True).start()
"""


@pytest.mark.parametrize(
    ("mark", "mode", "rules", "ended"),
    [
        ("", "ProcessingTime", {"never-ending-timeout"}, False),
        pytest.param('.withWatermark("at", "1 minute")', "EventTime", set(), True, marks=ALSO),
        ("", "None", set(), True),
    ],
)
def test_processing_time_timers_keep_an_available_now_stream_from_ending(run, mark, mode, rules, ended):
    found, names = run(ENDLESS.format(mark=mark, mode=mode, call="transformWithState"), Severity.WARNING)

    assert isinstance(names, dict), names
    assert (found, ends(names["query"])) == (rules, ended)
