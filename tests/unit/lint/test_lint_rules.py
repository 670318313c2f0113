"""What each rule finds, and where it is quiet; that its examples do what they say is tested with Spark."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.resources import files

import pytest

from headrace.lint.catalog import RULES
from headrace.lint.lint_files import lint_text

SOURCE = 'orders = spark.readStream.schema("id INT").json("/data/orders")\n'
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SASL = (
    f"jaas = f'{LOGIN} username={{name}};'\nspark.readStream.format('kafka').option('subscribe', 't')"
    ".option('kafka.security.protocol', 'SASL_PLAINTEXT').option('kafka.sasl.jaas.config', jaas)"
)


def test_every_text_of_a_rule_has_its_function():
    texts = tomllib.loads(files("headrace.lint").joinpath("rules.toml").read_text(encoding="utf-8"))

    assert set(texts) == {rule.id for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_failing_example_violates_only_its_rule_and_passing_example_none(rule):
    failing, passing = (lint_text(text, ".py", "a.py").findings for text in (rule.failing, rule.passing))

    assert {finding.rule.id for finding in failing} == {rule.id}
    assert passing == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_rule_texts_have_the_same_form(rule):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
    assert re.fullmatch(r"[^.]*", rule.title)
    # One sentence.
    assert re.fullmatch(r".*[^.]\.", rule.why)
    assert not re.search(r"\. [A-Z]", rule.why)
    assert rule.exceptions.endswith(".")
    assert rule.fix


@pytest.mark.parametrize(
    ("rule_id", "text"),
    [
        ("stream-distinct-count", "orders.groupBy('id').agg(F.count(F.col('id')), count_distinct('id', 'at'))"),
        ("stream-distinct-count", "spark.sql('SELECT count(DISTINCT id) FROM STREAM(orders)')"),
        ("groups-with-state", "orders.groupByKey(lambda row: row.id)"),
        ("stream-cache", "orders.filter('id > 1').persist()"),
        ("stream-cache", "orders.localCheckpoint()"),
        ("stream-action", "orders.toPandas()"),
        ("stream-action", "orders.write.parquet('/x')"),
        ("stream-action", "orders.rdd"),
        ("stream-sort", "orders.sort('id')"),
        ("stream-window-function", "orders.select(F.lag('id').over(w))"),
        ("input-file-name", "orders.selectExpr('*', 'input_file_name() AS file')"),
        ("input-file-name", "F.input_file_block_start()"),
        ("change-types", "orders.filter(F.col('_change_type').isin(['insert', 'update']))"),
        ("change-types", "orders.filter(F.col('_change_type') == 'update')"),
        ("change-types", "orders.where(orders['_change_type'] != 'updated')"),
        ("change-types", "orders.where(orders._change_type.isin('delete', 'upsert'))"),
        ("ignore-changes", "spark.readStream.options(ignoreChanges=True).table('t')"),
        ("missing-schema", "spark.readStream.csv('/x')"),
        ("missing-path", "import headrace\nspark.readStream.format('cloudFiles').load()"),
        ("missing-path", "spark.readStream.load(format='text')"),
        ("missing-path", "spark.read.format('delta').option('versionAsOf', 1).load()"),
        ("kafka-mechanism", SASL + ".load()"),
        ("kafka-mechanism", SASL.replace("readStream", "read") + ".load()"),
        ("changes-into-query", "@dp.table(name='t')\ndef f(): ...\ndlt.apply_changes('T', 's', ['id'], 'id')"),
        ("changes-into-query", "@dp.materialized_view\ndef t(): ...\ndp.create_auto_cdc_flow(target='t')"),
        ("statement-in-file", "@dp.table\ndef u(): ...\nspark.sql('INSERT INTO t VALUES (1)')"),
        ("statement-in-file", "@dp.table\ndef u(): ...\nfor n in (1, 2):\n    spark.sql(f'DROP TABLE t{n}')"),
        ("vendor-source", "spark.readStream.format('eventhubs').load()"),
        ("vendor-source", "spark.readStream.format('pubsub').load()"),
        ("create-data-frame-column", "spark.createDataFrame([{'at': F.current_timestamp()}])"),
        ("vendor-name", "dbutils.fs.rm('/x', True)"),
        ("vendor-setting", "spark.conf.set('spark.sql.streaming.stateStore.providerClass', 'com.databricks.A')"),
        ("setting-without-effect", "spark.conf.set('spark.databricks.io.cache.enabled', 'true')"),
        ("fixed-setting", "spark.conf.set('spark.serializer', 'x')"),
        ("vendor-system-table", "spark.sql('SELECT * FROM system.billing.usage')"),
        ("large-broadcast", "spark.conf.set('spark.sql.autoBroadcastJoinThreshold', 2147483648)"),
        ("secret-in-text", "spark.read.option('url', 'jdbc:x?user=a&password=hunter2').load()"),
        (
            "secret-in-text",
            "orders.writeStream.option('kafka.sasl.jaas.config', 'a username=\"b\" password=\"c123\";')",
        ),
        ("writer-table", "orders.writeStream.format('delta').save('/x')"),
        ("trigger-value", "orders.writeStream.trigger(once=False)"),
        ("trigger-value", "orders.writeStream.trigger()"),
        ("trigger-value", "orders.writeStream.trigger(once=True, processingTime='1 second')"),
        ("once-trigger", "orders.writeStream.trigger(once=True)"),
        ("continuous-trigger", "orders.writeStream.format('kafka').trigger(continuous='1 second')"),
        ("large-broadcast", "orders.join(F.broadcast(spark.table('dim.huge_table')), 'id')"),
        ("missing-broadcast", "big_table = spark.table('t')\norders.join(big_table, 'id')"),
        (
            "missing-broadcast",
            "spark.conf.set('spark.sql.autoBroadcastJoinThreshold', '-1')\norders.join(spark.table('t'), 'id')",
        ),
        ("show-in-foreach-batch", "@dp.foreach_batch_sink(name='s')\ndef s(batch, number):\n    batch.show()"),
        ("listener-base-class", "class L: ...\nspark.streams.addListener(L())"),
    ],
)
def test_rule_reports_other_forms_of_its_problem(found, rule_id, text):
    assert rule_id in [rule for rule, _ in found(SOURCE + text)]


@pytest.mark.parametrize(
    "text",
    [
        # Of batches, all of this works.
        "rows = spark.read.table('t')\nrows.cache().groupBy('a').agg(F.countDistinct('b')).orderBy('a').show()",
        "rows = spark.table('t')\nrows.withColumn('n', F.row_number().over(w)).write.mode('append').saveAsTable('u')",
        "rows = dp.read('t')\nrows.cache()",
        # Groups are counted, not the stream.
        SOURCE + "orders.withWatermark('at', '1 hour').groupBy('at').count()",
        SOURCE + "orders.groupBy('id').count().orderBy('id')",
        # Of what nothing is known, nothing is said.
        "def clean(rows):\n    return rows.dropDuplicates(['id']).cache()",
        "rows = load()\nrows.orderBy('id').show()",
        "rdd.groupByKey().mapValues(list)",
        "table.write('x'); queue.exception; record.status['id']; job.trigger(once=False); page.limit(3).show()",
        # What is known to be right.
        SOURCE + "orders.filter(F.col('_change_type').isin('insert', 'update_postimage'))",
        SOURCE + "orders.filter(\"_change_type != 'update_preimage' AND name = 'update'\")",
        SOURCE + "orders.select('_metadata.file_path')",
        SOURCE + "orders.join(spark.table('t'), 'id', 'left')",
        SOURCE + "orders.join(F.broadcast(spark.read.format('jdbc').load()), 'id', 'left')",
        SOURCE + "orders.join(spark.table('bigger'), 'id').join(spark.table('enlarged'), 'id')",
        "spark.read.option('password', 'password').load()",
        "spark.readStream.text('/x')",
        "spark.readStream.format('rate').load()",
        "spark.readStream.format('text').option('path', '/x').load()",
        "spark.readStream.format('delta').options(**options).load()",
        "spark.readStream.format(form).load()",
        "spark.readStream.load()",
        SASL + ".option('kafka.sasl.mechanism', 'PLAIN').load()",
        SASL + ".option('kafka.sasl.kerberos.service.name', 'kafka').load()",
        SASL + ".options(**options).load()",
        SASL.replace("plain.PlainLoginModule", "kerberos.Krb5LoginModule") + ".load()",
        SASL.replace(".option('kafka.sasl.jaas.config', jaas)", "") + ".load()",
        SASL.replace("SASL_PLAINTEXT", "SSL") + ".load()",
        "dp.create_streaming_table('t')\ndp.create_auto_cdc_flow('t', 's', ['id'], 'id')",
        "@dp.table\ndef u(): ...\ndp.create_auto_cdc_flow('t', 'u', ['id'], 'id')",
        "@dp.table\ndef u(): ...\nspark.sql('SELECT 1')",
        "@dp.table\ndef u(): ...\ndef prepare():\n    spark.sql('DROP TABLE t')",
        "spark.sql('DROP TABLE t')",
        "spark.readStream.schema(schema).csv('/x')",
        "spark.conf.set('spark.sql.streaming.schemaInference', 'true')\nspark.readStream.json('/x')",
        "spark.conf.set('spark.sql.shuffle.partitions', partitions)",
        "spark.conf.set('spark.databricks.delta.optimizeWrite.enabled', 'true')",
        "spark.createDataFrame([(1, now())]).withColumn('a', F.col('b'))\nfrom times import now",
        "from IPython.display import display\ndisplay(1)",
        "SparkSession.builder.config('spark.executor.memory', '8g').getOrCreate()",
        "spark.read.option('password', password).option('url', f'jdbc:x?password={password}').load()",
        "spark.read.option('password', '{{secrets/a/b}}').load()",
        "spark.read.option('kafka.sasl.jaas.config', f'x username=\"{a}\" password=\"{b}\";').load()",
        "spark.sql('SELECT * FROM system_log')",
    ],
)
def test_valid_code_has_no_findings(found, text):
    assert found(text) == []


STATE = """
    from pyspark.sql import functions as F
    rows = spark.readStream.table("t").withWatermark("at", "1 hour")
    {rows}.writeStream.format("delta").outputMode("{mode}").option("checkpointLocation", "/c").toTable("u")
    """


@pytest.mark.parametrize(
    ("rows", "mode", "rules"),
    [
        ('rows.groupBy(F.window("at", "1 hour")).count()', "append", []),
        ('rows.groupBy(F.window(F.col("at"), "1 hour"), "id").count()', "append", []),
        ('rows.groupBy("at").count()', "append", []),
        ("rows.groupBy(*keys).count()", "append", []),
        ("rows.groupBy(keys).count()", "append", []),
        ('rows.withColumnRenamed("at", "seen").groupBy("seen").count()', "append", []),
        ('rows.withColumn("hour", F.window("at", "1 hour")).groupBy("hour").count()', "append", []),
        ('rows.groupBy("id").count()', "append", ["unbounded-state"]),
        ('rows.filter("at > 1").groupBy("id").agg(F.max("at"))', "append", ["unbounded-state"]),
        ('rows.groupBy("id").count()', "complete", []),
        ('rows.dropDuplicates(["id", "at"])', "append", []),
        ("rows.dropDuplicates()", "append", []),
        ('rows.dropDuplicates(["id"])', "append", ["unbounded-state"]),
        ('rows.dropDuplicatesWithinWatermark(["id"])', "append", []),
        ('rows.join(rows, "id")', "append", ["unbounded-state"]),
        ('rows.join(rows, ["id", "at"])', "append", []),
        ('rows.join(rows, "id").filter("at > seen")', "append", []),
        ("rows.join(rows, on)", "append", []),
        ('rows.join(rows, F.expr("a.id = b.id AND a.at > b.at"))', "append", []),
        ('rows.join(rows, "id", "left")', "append", ["no-watermark"]),
        ('rows.join(rows, "id", kind)', "append", []),
        ('rows.join(spark.readStream.table("v"), "id")', "append", ["unbounded-state"]),
        ('spark.readStream.table("v").join(spark.readStream.table("w"), "id", "left")', "append", ["no-watermark"]),
        ('spark.readStream.table("v").join(spark.table("w"), "id", "left")', "append", []),
        ('spark.readStream.table("v").groupBy("id").count()', "append", ["no-watermark"]),
        ('spark.readStream.table("v").groupBy("id").count()', "complete", []),
        ('spark.readStream.table("v").groupBy(F.window("at", "1 day")).count()', "complete", ["no-watermark"]),
        ('spark.readStream.table("v").distinct()', "append", ["unbounded-state"]),
        ('spark.readStream.table("v").dropDuplicatesWithinWatermark(["id"])', "append", ["no-watermark"]),
        ("rows", "update", ["output-mode"]),
        ("rows", "complete", ["output-mode"]),
    ],
)
def test_state_that_is_never_dropped_is_reported(found, rows, mode, rules):
    assert [rule for rule, _ in found(STATE.format(rows=rows, mode=mode))] == rules


WRITES = """
    a = spark.readStream.table("a")
    {first}
    {second}
    """


def write(checkpoint, target, frame="a"):
    return f'{frame}.writeStream.option("checkpointLocation", {checkpoint}).toTable({target})'


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        (write('"/c"', '"t"'), write('"/c"', '"u"'), ["shared-checkpoint"]),
        (write('"/c"', '"t"'), write('"/c/"', '"u"'), ["shared-checkpoint"]),
        (write('base + "/c"', '"t"'), write('base + "/c"', '"u"'), ["shared-checkpoint"]),
        (write('"/c"', '"t"'), write('"/c"', '"t"'), []),
        (write('"/c"', '"t"'), write('"/d"', '"t"'), ["new-checkpoint"]),
        (write('"/c"', '"t"'), write('"/d"', '"u"'), []),
        (write('"/c"', '"t"'), write('"/d"', '"t"', 'spark.readStream.table("b")'), []),
    ],
)
def test_checkpoints_of_all_queries_of_a_program_are_compared(found, first, second, rules):
    assert [rule for rule, _ in found(WRITES.format(first=first, second=second))] == rules


def test_queries_in_exclusive_branches_may_share_a_checkpoint(found):
    text = f"""
        a = spark.readStream.table("a")
        if small:
            {write('"/c"', '"t"')}
        else:
            {write('"/c"', '"u"')}
        def other():
            if small:
                return {write('"/c"', '"v"')}
            return {write('"/c"', '"w"')}
        """

    assert found(text) == []


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        ("batch.write.mode('append').saveAsTable('t')", ["foreach-batch-not-idempotent"]),
        ("batch.write.insertInto('t')", ["foreach-batch-not-idempotent"]),
        ("batch.write.mode('overwrite').saveAsTable('t')", []),
        ("batch.write.mode('append').option('txnAppId', 'a').option('txnVersion', number).saveAsTable('t')", []),
        ("batch.write.mode('append').options(**delta).saveAsTable('t')", []),
        ("requests.post(url, json=[1])", ["foreach-batch-not-idempotent"]),
        ("requests.post(url, headers={'Idempotency-Key': str(number)})", []),
        ("spark.table('t').count()", ["global-session-in-foreach-batch"]),
        ("spark = batch.sparkSession; spark.table('t').count()", []),
        ("batch.limit(3).collect()", []),
        ("batch.writeTo('t').append()", ["foreach-batch-not-idempotent"]),
        ("batch.show()", ["show-in-foreach-batch"]),
        ("batch.count(); batch.collect()", ["batch-computed-again"]),
        ("batch.persist(); batch.count(); batch.collect()", []),
        ("return batch.count() if number else batch.isEmpty()", []),
        ("batch.isEmpty() or batch.collect()", []),
    ],
)
def test_foreach_batch_functions_are_checked(found, body, rules):
    text = f"""
        import requests
        def work(batch, number):
            {body}
        q = spark.readStream.table("a").writeStream.option("checkpointLocation", "/c").foreachBatch(work).start()
        """

    assert [rule for rule, _ in found(text)] == rules


def test_merge_in_python_is_checked_like_merge_in_sql(found):
    text = """
        def merge(batch, number):
            target = DeltaTable.forName(batch.sparkSession, "silver")
            target.alias("t").merge(batch.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
        spark.readStream.table("a").writeStream.option("checkpointLocation", "/c").foreachBatch(merge).start()
        gold = spark.readStream.table("silver")
        """

    assert found(text) == [("merge-several-rows", 3), ("changed-source", 5)]


def test_fix_uses_names_from_the_program():
    text = """
def merge(updates, number):
    target = DeltaTable.forName(updates.sparkSession, "silver")
    merging = target.alias("t").merge(updates.alias("s"), "t.day = s.day AND t.id = s.id")
    merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
spark.readStream.table("a").writeStream.option("checkpointLocation", "/c").foreachBatch(merge).start()
query = spark.readStream.table("b").writeStream.format("delta").toTable("gold.b")
print(query.status["id"])
"""

    instead = {found.rule.id: found.fix for found in lint_text(text, ".py", "a.py").findings}

    assert instead["missing-checkpoint"] == '.option("checkpointLocation", "/checkpoints/gold/b")'
    assert instead["status-keys"] == "query.id"
    assert 'upsert(updates, number, "silver", keys=["day", "id"])' in instead["merge-several-rows"]


def test_rule_examples_are_valid_python():
    for rule in RULES:
        ast.parse(rule.failing)
        ast.parse(rule.passing)


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        ("CREATE STREAMING TABLE t AS SELECT * FROM STREAM s", [2]),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS t AS SELECT 1", [2]),
        ("CREATE STREAMING TABLE t", []),
        ("CREATE STREAMING TABLE u AS SELECT * FROM STREAM s", []),
    ],
)
def test_sql_cdc_flow_into_a_table_with_its_own_query_is_reported(found, made, lines):
    flow = "CREATE FLOW f AS AUTO CDC INTO T FROM STREAM s KEYS (id) SEQUENCE BY at"

    assert [line for rule, line in found(f"{made};\n{flow};", ".sql") if rule == "changes-into-query"] == lines
