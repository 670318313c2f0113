"""What a notebook session has for scripts that were written for the vendor's."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from headrace.errors import PipelineError

pytestmark = pytest.mark.spark


def test_tables_of_every_spelling_are_the_same_ones_in_the_next_run(scripts):
    scripts.run("""
        spark.range(2).write.saveAsTable("bronze.events")
        spark.range(3).write.format("delta").mode("append").saveAsTable("main.silver.events")
        spark.sql("CREATE TABLE gold.totals (rows BIGINT)")
        spark.sql("INSERT INTO gold.totals SELECT count(*) FROM main.silver.events e")
        spark.range(1).writeTo("main.gold.more").create()
        spark.range(4).write.saveAsTable("plain")
    """)

    assert scripts.tables() == [
        "bronze/events",
        "default/plain",
        "gold/totals",
        "main/gold/more",
        "main/silver/events",
    ]
    assert scripts.rows("SELECT (SELECT count(*) FROM main.silver.events), rows FROM spark_catalog.gold.totals") == [
        (3, 3)
    ]
    assert scripts.rows("SELECT count(*) FROM plain JOIN hive_metastore.bronze.events USING (id)") == [(2,)]


def test_a_table_that_is_dropped_is_gone_in_the_next_run(scripts):
    scripts.run('spark.range(2).write.saveAsTable("bronze.events")')

    scripts.run('spark.sql("DROP TABLE bronze.events")')

    assert scripts.tables() == []


def test_names_are_read_in_the_catalog_and_schema_that_use_says(scripts):
    names = scripts.run("""
        spark.sql("CREATE CATALOG IF NOT EXISTS main")
        spark.sql("USE CATALOG main")
        spark.sql("CREATE SCHEMA IF NOT EXISTS silver")
        spark.sql("USE SCHEMA silver")
        spark.range(5).write.saveAsTable("orders")
        found = spark.table("silver.orders").count(), spark.table("orders").count()
        there = spark.catalog.tableExists("main.silver.orders")
    """)

    assert names["found"] == (5, 5)
    assert names["there"]
    assert scripts.tables() == ["main/silver/orders"]


def test_a_stream_without_a_checkpoint_goes_on_in_the_next_run(scripts):
    script = """
        spark.range(2).write.mode("append").saveAsTable("bronze.events")
        seen = []
        (spark.readStream.table("bronze.events").writeStream.trigger(availableNow=True)
            .foreachBatch(lambda batch, number: seen.append(batch.count())).start().awaitTermination())
    """

    assert scripts.run(script)["seen"] == [2]
    assert scripts.run(script)["seen"] == [2]
    assert [text for text in scripts.said if "keeps its progress in" in text]


@pytest.mark.long(
    guard=(
        "tests/unit/scripts/test_checkpoints.py::test_each_has_its_own_when_one_line_starts_streams_that_do_different_things",
        "tests/spark/test_script_streams.py::test_every_function_gets_all_rows_when_one_line_starts_a_stream_for_each",
    )
)
def test_two_streams_into_one_table_have_a_checkpoint_each(scripts):
    scripts.run("""
        for name in ("one", "two"):
            spark.range(2).write.saveAsTable(name)
        first = spark.readStream.table("one").writeStream.trigger(availableNow=True).table("both")
        first.awaitTermination()
        second = spark.readStream.table("two").writeStream.trigger(availableNow=True).table("both")
        second.awaitTermination()
    """)

    assert scripts.rows("SELECT count(*) FROM both") == [(4,)]
    folder = scripts.folder / "storage" / "checkpoints" / "_scripts" / "script"
    assert sorted(path.name for path in folder.iterdir()) == ["both", "both~2"]


def test_a_checkpoint_is_not_taken_over_by_a_stream_of_another_table(scripts):
    script = """
        spark.range(2).write.mode("append").saveAsTable("{source}")
        (spark.readStream.table("{source}").writeStream.queryName("copy").trigger(availableNow=True)
            .toTable("target").awaitTermination())
    """
    scripts.run(script.format(source="one"))

    with pytest.raises(PipelineError) as raised:
        scripts.run(script.format(source="other"))

    assert raised.value.code == "SCRIPT.CHECKPOINT_OF_ANOTHER"
    assert "other" in raised.value.detail


def test_a_checkpoint_that_was_deleted_under_its_stream_is_refused_until_it_is_deleted_again(scripts):
    running = """
        spark.range(2).write.mode("append").saveAsTable("events")
        def begin():
            stream = spark.readStream.table("events").writeStream.option("checkpointLocation", "dbfs:/checkpoint")
            query = stream.trigger(processingTime="0 seconds").toTable("target")
            query.processAllAvailable()
            return query
        query = begin()
        dbutils.fs.rm("dbfs:/checkpoint", True)
        spark.range(1).write.mode("append").saveAsTable("events")
        query.processAllAvailable()
        query.stop()
    """

    with pytest.raises(PipelineError) as raised:
        scripts.run(running + "    begin()\n")
    again = """
        dbutils.fs.rm("dbfs:/checkpoint", True)
        stream = spark.readStream.table("events").writeStream.option("checkpointLocation", "dbfs:/checkpoint")
        stream.trigger(availableNow=True).toTable("target").awaitTermination()
    """
    scripts.run(again)

    assert raised.value.code == "SCRIPT.CHECKPOINT_CUT"
    assert scripts.rows("SELECT count(*) FROM target") == [(6,)]


def test_delta_tables_are_found_by_name_from_python(scripts):
    names = scripts.run("""
        from delta.tables import DeltaTable
        spark.range(3).write.saveAsTable("main.silver.customers")
        target = DeltaTable.forName(spark, "main.silver.customers")
        source = spark.range(2, 5)
        target.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
        DeltaTable.createIfNotExists(spark).tableName("gold.made").addColumn("id", "BIGINT").execute()
        rows = target.toDF().count()
    """)

    assert names["rows"] == 5
    assert "gold/made" in scripts.tables()


def test_paths_of_the_vendors_file_system_lie_in_the_storage(scripts):
    scripts.run("""
        spark.range(3).write.format("delta").save("dbfs:/mnt/data/one")
        dbutils.fs.put("/mnt/landing/a.json", '{"id": 1}')
        rows = spark.read.format("delta").load("/mnt/data/one").count(), spark.read.json("/mnt/landing").count()
        named = spark.sql("SELECT count(*) FROM delta.`/mnt/data/one`").first()[0]
        listed = [item.name for item in dbutils.fs.ls("/mnt")], dbutils.fs.ls("dbfs:/mnt/landing")[0].path
        assert (rows, named) == ((3, 1), 3)
        assert listed == (["data/", "landing/"], "dbfs:/mnt/landing/a.json")
        assert dbutils.fs.rm("/mnt/data", True) and not dbutils.fs.rm("/mnt/data", True)
    """)

    assert (scripts.folder / "storage" / "dbfs" / "mnt" / "landing" / "a.json").is_file()
    assert not (scripts.folder / "storage" / "dbfs" / "mnt" / "data").exists()


def test_settings_of_the_vendor_become_those_of_open_spark(scripts):
    names = scripts.run("""
        spark.conf.set("spark.sql.streaming.stateStore.providerClass",
                       "com.databricks.sql.streaming.state.RocksDBStateStoreProvider")
        spark.conf.set("spark.sql.shuffle.partitions", "auto")
        spark.conf.set("spark.databricks.delta.autoOptimize.optimizeWrite", True)
        spark.sql("SET spark.databricks.delta.autoOptimize.autoCompact = true")
        spark.conf.set("spark.databricks.photon.enabled", "true")
        spark.conf.set("spark.executor.memory", "8g")
        get = spark.conf.get
        found = [get(f"spark.databricks.delta.{name}.enabled") for name in ("optimizeWrite", "autoCompact")]
        provider, partitions = get("spark.sql.streaming.stateStore.providerClass"), get("spark.sql.shuffle.partitions")
    """)

    assert names["found"] == ["true", "true"]
    assert names["provider"].startswith("org.apache.spark.sql.execution.streaming.state.RocksDB")
    assert names["partitions"].isdigit()
    assert [text.split()[0] for text in scripts.said] == ["spark.databricks.photon.enabled", "spark.executor.memory"]


def test_a_property_that_only_the_vendors_delta_knows_is_taken_and_explained(scripts):
    scripts.run("""
        spark.sql("CREATE TABLE silver.events (id BIGINT) TBLPROPERTIES ('delta.tuneFileSizesForRewrites' = 'true')")
    """)

    assert scripts.tables() == ["silver/events"]
    assert "delta.tuneFileSizesForRewrites" in scripts.said[0]


@pytest.mark.long(
    guard="tests/spark/test_script_streams.py::test_who_waits_for_all_rows_of_a_stream_is_told_of_its_failure_once_it_is_not_started_again"
)
def test_a_failing_stream_is_started_again_as_often_as_the_settings_say(scripts):
    names = scripts.run("""
        spark.conf.set("spark.sql.streaming.maxRetries", "2")
        spark.conf.set("spark.sql.streaming.retryIntervalMs", "1")
        tries = []
        def deliver(batch, number):
            tries.append(number)
            if len(tries) < 3:
                raise ConnectionError("closed")
        spark.range(1).write.saveAsTable("bronze.events")
        writer = spark.readStream.table("bronze.events").writeStream.trigger(availableNow=True)
        query = writer.foreachBatch(deliver).start()
        query.awaitTermination()
        failed = query.exception()
    """)

    assert (names["tries"], names["failed"]) == ([0, 0, 0], None)
    assert len([text for text in scripts.said if "started again" in text]) == 2


def test_any_object_with_a_listeners_methods_hears_of_streams(scripts):
    names = scripts.run("""
        import threading
        class StreamingQueryListener:
            ended = threading.Event()
            def onQueryTerminated(self, event):
                self.ended.set()
        listener = StreamingQueryListener()
        spark.streams.addListener(listener)
        spark.range(1).write.saveAsTable("bronze.events")
        spark.readStream.table("bronze.events").writeStream.trigger(availableNow=True).table("copy").awaitTermination()
        heard = listener.ended.wait(30)
        spark.streams.removeListener(listener)
    """)

    assert names["heard"]


def test_a_statement_of_pipelines_is_refused_by_name(scripts):
    with pytest.raises(PipelineError) as raised:
        scripts.run('spark.sql("CREATE OR REFRESH STREAMING TABLE t AS SELECT * FROM STREAM s")')

    assert raised.value.code == "SCRIPT.PIPELINE_STATEMENT"


def test_frames_and_streams_are_displayed(scripts, capsys):
    scripts.run("""
        spark.range(2).write.saveAsTable("bronze.events")
        display(spark.table("bronze.events"))
        stream = spark.readStream.table("bronze.events")
        display(stream.groupBy().count(), streamName="counted")
        spark.streams.active[0].processAllAvailable()
        displayHTML("<h1>All &amp; done</h1>")
    """)

    shown = capsys.readouterr().out
    assert shown.count("| id|") == 1
    assert "counted, batch 0" in shown
    assert shown.endswith("All & done\n")


def test_the_console_is_where_the_script_prints(scripts, capsys):
    scripts.run("""
        spark.range(30).selectExpr("id", "repeat('x', 30) AS text").write.saveAsTable("wide")
        rows = spark.readStream.table("wide")
        rows.writeStream.format("console").option("numRows", 2).option("truncate", False).start().processAllAvailable()
        rows.groupBy().count().writeStream.outputMode("complete").start(format="console").processAllAvailable()
    """)

    shown = capsys.readouterr().out
    assert "only showing top 2 rows" in shown
    assert "x" * 30 in shown
    assert "Batch: 0" in shown
    assert "|   30|" in shown


def test_widgets_have_the_values_that_were_given_or_their_defaults(scripts):
    names = scripts.run(
        """
        dbutils.widgets.text("day", "2024-01-01")
        dbutils.widgets.dropdown("size", "small", ["small", "large"])
        values = dbutils.widgets.getAll(), dbutils.widgets.get("day")
        """,
        day="2025-05-05",
    )

    assert names["values"] == ({"day": "2025-05-05", "size": "small"}, "2025-05-05")


def test_a_table_that_is_not_there_is_said_to_be_missing_whatever_its_name(scripts):
    with pytest.raises(AnalysisException) as raised:
        scripts.run('spark.sql("SELECT * FROM main.silver.nothing")')

    assert raised.value.getCondition().startswith("TABLE_OR_VIEW_NOT_FOUND")


def test_streams_are_rows_of_system_tables(scripts):
    names = scripts.run("""
        spark.range(3).write.saveAsTable("bronze.events")
        query = spark.readStream.table("bronze.events").writeStream.queryName("copy").table("silver.events")
        query.processAllAvailable()
        running = spark.sql("SELECT name, status FROM system.streaming.queries WHERE status = 'ACTIVE'").collect()
        query.stop()
        sql = "SELECT query_id, input_rows, batch_duration_ms > 0 AS took FROM system.streaming.query_progress"
        batches = [tuple(row) for row in spark.sql(f"{sql} WHERE query_id = '{query.id}' AND input_rows > 0").collect()]
    """)

    assert [tuple(row) for row in names["running"]] == [("copy", "ACTIVE")]
    assert names["batches"] == [(names["query"].id, 3, True)]


def test_a_stream_that_names_no_place_writes_to_one_that_is_told(scripts):
    script = """
        spark.range(2).write.mode("append").saveAsTable("bronze.events")
        writer = spark.readStream.table("bronze.events").writeStream.format("delta").trigger(availableNow=True)
        writer.start().awaitTermination()
    """
    scripts.run(script)
    scripts.run(script)

    (told,) = {text for text in scripts.said if "names neither a table nor a path" in text}
    assert scripts.rows(f"SELECT count(*) FROM delta.`{told.split()[-1]}`") == [(4,)]


def test_what_python_does_not_have_is_refused_with_what_it_has(scripts):
    with pytest.raises(PipelineError) as raised:
        scripts.run("spark.range(1).groupByKey(lambda row: row.id).mapGroupsWithState(None, None, 'Update')")

    assert raised.value.code == "SCRIPT.NOT_IN_PYTHON"
    assert "transformWithStateInPandas" in raised.value.hint


def test_a_star_import_brings_the_names_that_documents_use(scripts):
    names = scripts.run("""
        from pyspark.sql.functions import *
        found = spark.range(3).agg(countDistinct("id")).first()[0]
    """)

    assert names["found"] == 3


def test_options_of_writers_that_are_settings_of_delta_are_in_force(scripts):
    names = scripts.run("""
        for _ in range(2):
            writer = spark.range(1).write.format("delta").mode("append")
            writer.option("optimizeWrite", "true").option("autoCompact", "true").saveAsTable("bronze.events")
        spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "2")
        stream = spark.readStream.table("bronze.events").writeStream.option("maxFilesPerTrigger", 1)
        stream.option("autoCompact", "true").trigger(availableNow=True).table("silver.events").awaitTermination()
        spark.range(1).write.format("delta").mode("append").option("autoCompact", "true").saveAsTable("silver.events")
        done = [row.operation for row in spark.sql("DESCRIBE HISTORY silver.events").collect()]
        left = spark.conf.getAll.get("spark.databricks.delta.autoCompact.enabled")
    """)

    assert "OPTIMIZE" in names["done"]
    assert names["left"] != "true"


def test_columns_that_are_words_of_delta_are_taken_to_order_files_by(scripts):
    names = scripts.run("""
        spark.sql("CREATE TABLE silver.events (id INT, timestamp TIMESTAMP)")
        spark.sql("INSERT INTO silver.events VALUES (1, current_timestamp())")
        spark.sql("OPTIMIZE silver.events ZORDER BY (timestamp, id)")
        done = [row.operation for row in spark.sql("DESCRIBE HISTORY silver.events").collect()]
    """)

    assert "OPTIMIZE" in names["done"]


def test_the_folder_of_checkpoints_that_the_settings_name_has_one_for_each_stream(scripts):
    script = """
        spark.conf.set("spark.sql.streaming.checkpointLocation", "/mnt/checkpoints")
        spark.range(2).write.mode("append").saveAsTable("one")
        stream = spark.readStream.table("one").writeStream.trigger(availableNow=True)
        stream.table("bronze.copy").awaitTermination()
        """
    scripts.run(script + 'stream.queryName("named").table("bronze.named").awaitTermination()\n')
    scripts.run(script)

    folder = scripts.folder / "storage" / "dbfs" / "mnt" / "checkpoints"
    assert sorted(str(path.relative_to(folder)) for path in folder.glob("**/query.json")) == [
        "named/query.json",
        "script/bronze.copy/query.json",
    ]
    assert scripts.rows("SELECT count(*) FROM bronze.copy") == [(4,)]


def test_arguments_may_be_given_by_their_names(scripts):
    names = scripts.run("""
        spark.range(2).write.saveAsTable(name="main.bronze.events", format="delta", mode="append")
        spark.range(1).write.insertInto(tableName="main.bronze.events", overwrite=False)
        spark.sql(sqlQuery="CREATE OR REPLACE TEMP VIEW seen AS SELECT * FROM main.bronze.events")
        found = spark.table(tableName="seen").count(), spark.read.table(tableName="main.bronze.events").count()
        there = spark.catalog.tableExists(tableName="main.bronze.events")
    """)

    assert (names["found"], names["there"]) == ((3, 3), True)


def test_tables_that_somebody_else_makes_meanwhile_are_found(scripts):
    names = scripts.run(
        """
        from deltalake import write_deltalake
        import pyarrow as pa
        for folder in ("bronze/one", "bronze/two", "main/silver/three"):
            write_deltalake(f"{__import__('os').path.dirname(HERE)}/storage/tables/{folder}", pa.table({"id": [1, 2]}))
        found = [
            spark.sql("SELECT o.id FROM bronze.one o JOIN main.silver.three t USING (id)").count(),
            spark.table("bronze.two").count(),
        ]
        listed = [row.tableName for row in spark.sql("SHOW TABLES IN main.silver").collect() if not row.isTemporary]
    """.replace("HERE", repr(str(scripts.folder / "script.py")))
    )

    assert (names["found"], names["listed"]) == ([2, 2], ["three"])
