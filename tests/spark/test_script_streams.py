"""Streams of scripts: each has a checkpoint of its own, and one whose function fails is started again or not."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

ALONE = pytest.mark.long(guard="its other cases")
ORDERS = """
        if not spark.catalog.tableExists("bronze.orders"):
            country = "element_at(array('de', 'fr', 'it'), CAST(id % 3 AS INT) + 1) AS country"
            spark.range(12).selectExpr("id", country).write.saveAsTable("bronze.orders")
        orders = spark.readStream.table("bronze.orders")
"""
# A function that fails as often as a widget says, in a stream that is started again twice.
RETRIED = """
        spark.conf.set("spark.sql.streaming.maxRetries", "2")
        spark.conf.set("spark.sql.streaming.retryIntervalMs", "50")
        tries, failed = [], None
        def deliver(batch, number):
            tries.append(number)
            if len(tries) <= int(dbutils.widgets.get("failures")):
                raise ConnectionError("closed")
"""


@pytest.mark.parametrize(
    "countries", [pytest.param(("de", "fr"), marks=pytest.mark.long(guard="its other cases")), ("fr", "de")]
)
def test_every_stream_of_a_loop_gets_its_rows_once_when_the_script_runs_twice(scripts, countries):
    script = """
        seen = []
        for country in COUNTRIES:
            def write(batch, number, country=country):
                seen.extend((country, row.country) for row in batch.collect())
            part = orders.where(f"country = '{country}'")
            part.writeStream.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
        """
    first = scripts.run(ORDERS + script.replace("COUNTRIES", "('de', 'fr')"))["seen"]

    second = scripts.run(ORDERS + script.replace("COUNTRIES", repr(countries)))["seen"]

    assert sorted(first) == sorted((country, country) for country in ("de", "fr") for _ in range(4))
    assert second == []


def test_every_function_gets_all_rows_when_one_line_starts_several_streams(scripts):
    script = """
        seen = []
        def writer_for(table):
            return lambda batch, number: seen.append((table, batch.count()))
        def deliver(table):
            orders.writeStream.foreachBatch(writer_for(table)).trigger(availableNow=True).start().awaitTermination()
        for table in ("a", "b"):
            deliver(table)
        """
    names = scripts.run(ORDERS + script)

    assert names["seen"] == [("a", 12), ("b", 12)]


@pytest.mark.parametrize(("failures", "ends_well"), [pytest.param(2, True, marks=ALONE), (3, False)])
def test_process_all_available_raises_a_failure_only_after_the_last_restart(scripts, failures, ends_well):
    script = """
        query = orders.writeStream.foreachBatch(deliver).start()
        try:
            query.processAllAvailable()
        except Exception as error:
            failed = str(error)
        query.stop()
        """
    names = scripts.run(ORDERS + RETRIED + script, failures=str(failures))

    assert names["tries"] == [0, 0, 0]
    assert (names["failed"] is None) == ends_well


@pytest.mark.parametrize(("failures", "ends_well"), [(2, True), pytest.param(3, False, marks=ALONE)])
def test_await_any_termination_ignores_a_failed_stream_that_is_restarted(scripts, failures, ends_well):
    script = """
        spark.streams.resetTerminated()
        idle = orders.writeStream.foreachBatch(lambda batch, number: None).start()
        query = orders.writeStream.trigger(availableNow=True).foreachBatch(deliver).start()
        try:
            ended = spark.streams.awaitAnyTermination(60)
        except Exception as error:
            failed = str(error)
        found = idle.isActive, query.isActive
        idle.stop()
        """
    names = scripts.run(ORDERS + RETRIED + script, failures=str(failures))

    assert names["tries"] == [0, 0, 0]
    assert names["found"] == (True, False)
    assert (names["failed"] is None) == ends_well


@pytest.mark.parametrize(
    ("fails", "said"),
    [('raise KeyError("id")', "KeyError: 'id'"), pytest.param("sys.exit(3)", "sys.exit(3)", marks=ALONE)],
)
def test_a_stream_is_not_restarted_when_its_function_has_a_bug(scripts, fails, said):
    script = f"""
        import sys
        spark.conf.set("spark.sql.streaming.maxRetries", "2")
        spark.conf.set("spark.sql.streaming.retryIntervalMs", "1")
        tries = []
        def deliver(batch, number):
            tries.append(number)
            {fails}
        query = orders.writeStream.trigger(availableNow=True).foreachBatch(deliver).start()
        try:
            query.awaitTermination()
        except Exception as error:
            failed = str(error)
        """
    names = scripts.run(ORDERS + script)

    assert names["tries"] == [0]
    assert said in names["failed"]


def test_stream_calls_from_vendor_examples_are_supported(scripts):
    names = scripts.run(
        ORDERS
        + """
        from pyspark.sql import functions as F
        kept = orders.cache()
        query = kept.writeStream.format("memory").queryName("kept").start()
        progress, status = query.lastProgress, query.status
        query.processAllAvailable()
        shown = spark.sql("SELECT count(*) AS n, sum(input_rows) AS r FROM system.streaming.query_progress").collect()
        query.stop()
        rows = spark.createDataFrame([(1, F.lit("a")), (2, F.concat(F.lit("b"), F.lit("c")))], "id INT, name STRING")
        named = spark.createDataFrame([{"id": 1, "at": F.current_timestamp()}, {"id": 2, "at": F.current_timestamp()}])
        told = [tuple(row) for row in rows.collect()], named.select("at").distinct().count()
        ticks = spark.readStream.format("rate").load()
        printing = ticks.writeStream.format("console").trigger(continuous="1 second").start()
        printing.stop()
        """
    )

    query = names["query"]
    assert names["progress"]["numInputRows"] == 12
    assert (names["status"]["id"], names["status"]["runId"], names["status"]["name"]) == (query.id, query.runId, "kept")
    assert [tuple(row) for row in names["shown"]] == [(1, 12)]
    assert names["told"] == ([(1, "a"), (2, "bc")], 1)
    assert any("cache() of a stream does nothing" in text for text in scripts.said)
