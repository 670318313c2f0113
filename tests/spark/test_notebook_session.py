"""What a notebook session has for scripts that were written for the vendor's."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from headrace.errors import PipelineError
from headrace.events.system_tables import QUERIES, QUERY_PROGRESS

pytestmark = pytest.mark.spark


def test_tables_are_found_in_the_next_run_under_every_form_of_their_names(scripts):
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


def test_names_are_resolved_in_the_catalog_and_schema_set_by_use(scripts):
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


def test_a_stream_without_a_checkpoint_location_continues_in_the_next_run(scripts):
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
        "tests/unit/scripts/test_checkpoints.py::test_different_streams_started_on_one_line_get_separate_checkpoints",
        "tests/spark/test_script_streams.py::test_every_function_gets_all_rows_when_one_line_starts_several_streams",
    )
)
def test_two_streams_into_one_table_have_separate_checkpoints(scripts):
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


def test_a_stream_of_another_table_cannot_reuse_a_checkpoint(scripts):
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


def test_a_checkpoint_deleted_while_its_stream_ran_is_rejected_until_deleted_again(scripts):
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


def test_dbfs_paths_are_mapped_into_the_storage(scripts):
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


def test_vendor_settings_are_translated_to_spark_settings(scripts):
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


def test_a_vendor_only_table_property_is_accepted_with_a_notice(scripts):
    scripts.run("""
        spark.sql("CREATE TABLE silver.events (id BIGINT) TBLPROPERTIES ('delta.tuneFileSizesForRewrites' = 'true')")
    """)

    assert scripts.tables() == ["silver/events"]
    assert "delta.tuneFileSizesForRewrites" in scripts.said[0]


@pytest.mark.long(
    guard="tests/spark/test_script_streams.py::test_process_all_available_raises_a_failure_only_after_the_last_restart"
)
def test_a_failing_stream_is_restarted_up_to_the_configured_number_of_retries(scripts):
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


def test_any_object_with_listener_methods_receives_stream_events(scripts):
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


def test_a_pipeline_statement_is_rejected_in_a_script(scripts):
    with pytest.raises(PipelineError) as raised:
        scripts.run('spark.sql("CREATE OR REFRESH STREAMING TABLE t AS SELECT * FROM STREAM s")')

    assert raised.value.code == "SCRIPT.PIPELINE_STATEMENT"


def test_display_shows_data_frames_and_streams(scripts, capsys):
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


def test_the_console_sink_prints_to_the_output_of_the_script(scripts, capsys):
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


def test_widgets_have_the_given_values_or_their_defaults(scripts):
    names = scripts.run(
        """
        dbutils.widgets.text("day", "2024-01-01")
        dbutils.widgets.dropdown("size", "small", ["small", "large"])
        values = dbutils.widgets.getAll(), dbutils.widgets.get("day")
        """,
        day="2025-05-05",
    )

    assert names["values"] == ({"day": "2025-05-05", "size": "small"}, "2025-05-05")


def test_a_missing_table_raises_table_or_view_not_found(scripts):
    with pytest.raises(AnalysisException) as raised:
        scripts.run('spark.sql("SELECT * FROM main.silver.nothing")')

    assert raised.value.getCondition().startswith("TABLE_OR_VIEW_NOT_FOUND")


def test_system_tables_list_streams_and_their_progress(scripts):
    names = scripts.run("""
        spark.range(3).write.saveAsTable("bronze.events")
        query = spark.readStream.table("bronze.events").writeStream.queryName("copy").table("silver.events")
        query.processAllAvailable()
        running = spark.sql("SELECT name, status FROM system.streaming.queries WHERE status = 'ACTIVE'").collect()
        query.stop()
        tables = ("queries", "query_progress")
        columns = [spark.sql(f"SELECT * FROM system.streaming.{table}").dtypes for table in tables]
        sql = "SELECT query_id, input_rows, batch_duration_ms > 0 AS took FROM system.streaming.query_progress"
        batches = [tuple(row) for row in spark.sql(f"{sql} WHERE query_id = '{query.id}' AND input_rows > 0").collect()]
    """)

    assert [tuple(row) for row in names["running"]] == [("copy", "ACTIVE")]
    assert names["batches"] == [(names["query"].id, 3, True)]
    # As in `headrace sql`.
    expected = [[(column.name, column.type) for column in table.columns] for table in (QUERIES, QUERY_PROGRESS)]
    assert names["columns"] == expected


def test_a_stream_without_a_table_or_path_writes_to_a_reported_path(scripts):
    script = """
        spark.range(2).write.mode("append").saveAsTable("bronze.events")
        writer = spark.readStream.table("bronze.events").writeStream.format("delta").trigger(availableNow=True)
        writer.start().awaitTermination()
    """
    scripts.run(script)
    scripts.run(script)

    (told,) = {text for text in scripts.said if "names neither a table nor a path" in text}
    assert scripts.rows(f"SELECT count(*) FROM delta.`{told.split()[-1]}`") == [(4,)]


def test_an_api_missing_in_python_is_rejected_with_its_python_equivalent(scripts):
    with pytest.raises(PipelineError) as raised:
        scripts.run("spark.range(1).groupByKey(lambda row: row.id).mapGroupsWithState(None, None, 'Update')")

    assert raised.value.code == "SCRIPT.NOT_IN_PYTHON"
    assert "transformWithStateInPandas" in raised.value.hint


def test_a_star_import_of_functions_includes_names_from_before_spark_4(scripts):
    names = scripts.run("""
        from pyspark.sql.functions import *
        found = spark.range(3).agg(countDistinct("id")).first()[0]
    """)

    assert names["found"] == 3


def test_writer_options_that_are_delta_settings_take_effect(scripts):
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


def test_zorder_accepts_columns_named_like_delta_keywords(scripts):
    names = scripts.run("""
        spark.sql("CREATE TABLE silver.events (id INT, timestamp TIMESTAMP)")
        spark.sql("INSERT INTO silver.events VALUES (1, current_timestamp())")
        spark.sql("OPTIMIZE silver.events ZORDER BY (timestamp, id)")
        done = [row.operation for row in spark.sql("DESCRIBE HISTORY silver.events").collect()]
    """)

    assert "OPTIMIZE" in names["done"]


def test_a_configured_checkpoint_location_has_a_subfolder_for_each_stream(scripts):
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


def test_patched_methods_accept_keyword_arguments(scripts):
    names = scripts.run("""
        spark.range(2).write.saveAsTable(name="main.bronze.events", format="delta", mode="append")
        spark.range(1).write.insertInto(tableName="main.bronze.events", overwrite=False)
        spark.sql(sqlQuery="CREATE OR REPLACE TEMP VIEW seen AS SELECT * FROM main.bronze.events")
        found = spark.table(tableName="seen").count(), spark.read.table(tableName="main.bronze.events").count()
        there = spark.catalog.tableExists(tableName="main.bronze.events")
    """)

    assert (names["found"], names["there"]) == ((3, 3), True)


def test_tables_created_by_another_writer_during_the_run_are_found(scripts):
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
