"""Distinct values of a stream are counted as those of a batch are, in pipelines and in scripts."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from tests.tiers import examples

from headrace.model.outcome import UpdateState
from headrace.spark.analysis.distinct_counts import with_distinct_counts

pytestmark = pytest.mark.spark

SCHEMA = "k STRING, user STRING, amount DOUBLE, at TIMESTAMP"
ROWS = st.lists(
    st.tuples(st.sampled_from("xy"), st.sampled_from(["a", "b", None]), st.sampled_from([0.0, -0.0, 1.5, None])),
    max_size=12,
)


def counted(rows):
    """Distinct counts of several kinds."""
    return rows.groupBy("k").agg(
        F.count_distinct("user").alias("users"),
        F.count_distinct("user", "amount").alias("pairs"),
        (F.count_distinct("amount") / F.count("*")).alias("share"),
        F.expr("count(DISTINCT user) FILTER (WHERE amount > 1)").alias("large"),
        F.sum("amount").alias("amount"),
        F.count_distinct(F.upper("user")),
    )


@pytest.fixture(scope="module")
def streams(headrace_session, tmp_path_factory):
    """Runs a query over a stream of batches, and gives its last result."""
    count = iter(range(10_000))

    def rows(query, *batches):
        place = tmp_path_factory.mktemp(f"stream{next(count)}")
        (place / "in").mkdir()
        for number, batch in enumerate(batches):
            texts = (json.dumps(dict(zip(("k", "user", "amount"), row, strict=True))) for row in batch)
            (place / "in" / f"{number}.json").write_text("\n".join(texts))
        found = []
        stream = headrace_session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(place / "in"))
        writer = (
            query(stream).writeStream.outputMode("complete").option("checkpointLocation", str(place / "checkpoint"))
        )
        writer = writer.foreachBatch(lambda frame, _: found.append(frame.collect())).trigger(availableNow=True)
        writer.start().awaitTermination()
        return found[-1] if found else []

    return rows


@settings(
    max_examples=examples(few=3, many=6),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(first=ROWS, second=ROWS)
def test_a_stream_counts_distinct_values_as_a_batch_does(headrace_session, streams, first, second):
    rows = [dict(zip(("k", "user", "amount"), row, strict=True)) for row in (*first, *second)]
    whole = headrace_session.createDataFrame(rows, SCHEMA) if rows else headrace_session.createDataFrame([], SCHEMA)

    found = streams(lambda stream: with_distinct_counts(counted(stream)), first or [("x", None, None)], second)

    if first:
        assert sorted(found, key=str) == sorted(counted(whole).collect(), key=str)


def test_column_names_and_types_are_unchanged(headrace_session, tmp_path):
    (tmp_path / "in").mkdir()
    stream = counted(headrace_session.readStream.schema(SCHEMA).json(str(tmp_path / "in")))

    changed = with_distinct_counts(stream)

    assert changed.schema == stream.schema
    assert "count(DISTINCT upper(user))" in changed.columns


def test_a_frame_without_streaming_distinct_counts_is_returned_unchanged(headrace_session, tmp_path):
    (tmp_path / "in").mkdir()
    stream = headrace_session.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    batch = counted(headrace_session.createDataFrame([], SCHEMA))

    for frame in (batch, stream, stream.groupBy("k").count()):
        assert with_distinct_counts(frame) is frame


PIPELINE = """
    @dp.table(schema="user STRING, at TIMESTAMP")
    def source():
        return spark.readStream.schema("user STRING, at TIMESTAMP").json("unused")

    @dp.temporary_view
    def hourly():
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("source").withWatermark("at", "1 minute")
        return rows.groupBy(F.window("at", "1 hour")).agg(F.countDistinct("user").alias("users"))

    @dp.table
    def hours():
        return spark.readStream.table("hourly").selectExpr("window.start AS hour", "users")

    @dp.table
    def total():
        return spark.sql("SELECT count(DISTINCT user) AS users FROM STREAM(source)")
    """


def test_a_pipeline_counts_distinct_values_of_streams(project):
    rows = [
        [{"user": user, "at": f"2026-01-01T{at}:00Z"} for user, at in batch]
        for batch in ([("a", "12:01"), ("b", "12:02")], [("a", "12:30"), ("a", "13:10")], [("c", "15:00")])
    ]
    pipeline = project(PIPELINE).given("source", *rows)

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert [row["users"] for row in result.rows("hours")] == [2, 1]
    assert result.rows("total") == [{"users": 3}]
    assert pipeline.plan().empty


def test_a_script_counts_distinct_values_of_streams(scripts):
    scripts.run("""
        from pyspark.sql.functions import *
        spark.createDataFrame([("x", "a"), ("x", "a"), ("x", "b")], "k STRING, user STRING").write.saveAsTable("events")
        totals = spark.readStream.table("events").groupBy("k").agg(countDistinct("user").alias("users"))
        (totals.writeStream.outputMode("complete").trigger(availableNow=True).toTable("totals").awaitTermination())
    """)

    assert scripts.rows("SELECT * FROM totals") == [("x", 2)]
