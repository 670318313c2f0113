"""What functions of batches write: what is found, and that its replacement loses nothing and repeats nothing."""

from __future__ import annotations

import pytest

from headrace.lint.lint_files import lint_text

WORK = """
import requests
def work(rows, number):
    {body}
spark.readStream.table("a").writeStream.option("checkpointLocation", "/c").foreachBatch(work).start()
"""
ONCE = "headrace.delivery.append_once"
LOOP = "  # rows: everything the loop writes, combined with unionByName"


@pytest.fixture
def replacements():
    """The replacements of one rule in a program, in reading order."""

    def look(text, rule_id="foreach-batch-not-idempotent"):
        return [found.fix for found in lint_text(text, ".py", "a.py").findings if found.rule.id == rule_id]

    return look


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("rows.write.format('delta').mode('append').save('/t')", f"{ONCE}(rows, number, '/t')"),
        (
            "rows.filter('x').select('a').write.format('delta').mode('append').saveAsTable('t')",
            f"{ONCE}(rows.filter('x').select('a'), number, 't')",
        ),
        (
            "rows.write.format('delta').mode('append').option('mergeSchema', 'true').partitionBy('d').save('/t')",
            f"{ONCE}(rows, number, '/t', partition_by=['d'], options={{'mergeSchema': 'true'}})",
        ),
        ("rows.write.format('delta').save(path='/t', mode='append')", f"{ONCE}(rows, number, '/t')"),
        ("rows.write.mode('append').saveAsTable(name='t')", f"{ONCE}(rows, number, 't')  # for a Delta table"),
        ("rows.write.insertInto('t')", f"{ONCE}(rows, number, 't')  # for a Delta table"),
        ("rows.select('a').writeTo('t').append()", f"{ONCE}(rows.select('a'), number, 't')"),
        (
            "rows.write.mode('append').partitionBy('d').parquet('/t')",
            'rows.write.partitionBy(\'d\').mode("overwrite").parquet(f"/t/batch={number}")',
        ),
        (
            "rows.write.format('csv').mode('append').option('header', True).save(path)",
            "rows.write.format('csv').option('header', True).mode(\"overwrite\").save(f\"{path}/batch={number}\")",
        ),
        (
            "rows.write.mode('append').jdbc(url, 'orders')",
            'dp.create_sink("out", "jdbc", {...})  # in a pipeline; it writes each batch once',
        ),
        (
            "rows.write.format('kafka').mode('append').save()",
            'dp.create_sink("out", "kafka", {...})  # in a pipeline; record headers mark repeats',
        ),
        (
            "rows.sparkSession.sql('INSERT INTO a.t SELECT * FROM v')",
            f'{ONCE}(rows.sparkSession.sql("SELECT * FROM v"), number, "a.t")',
        ),
        ("rows.sparkSession.sql('INSERT INTO t VALUES (1)')", "# use append_once with the inserted rows"),
        ("for name in names: rows.write.format('delta').mode('append').save(name)", f"{ONCE}(rows, number, name)"),
        (
            "for key in keys: rows.filter(key).write.format('delta').mode('append').save('/t')",
            f"{ONCE}(rows, number, '/t'){LOOP}",
        ),
    ],
)
def test_fix_of_an_append_writes_the_same_rows_to_the_same_target(replacements, written, instead):
    assert replacements(WORK.format(body=written)) == [instead]


def test_fix_gives_two_appends_into_one_table_different_names(replacements):
    write = "rows.filter('{}').write.format('delta').mode('append').save('/t')"
    body = "; ".join((write.format("x"), write.format("y"), "rows.write.format('delta').mode('append').save('/u')"))

    assert replacements(WORK.format(body=body)) == [
        f"{ONCE}(rows.filter('x'), number, '/t', name=\"write_1\")",
        f"{ONCE}(rows.filter('y'), number, '/t', name=\"write_2\")",
        f"{ONCE}(rows, number, '/u')",
    ]


def test_fix_in_a_pipeline_sink_writes_to_paths(replacements):
    text = """
from headrace import pipelines as dp
@dp.foreach_batch_sink
def sink(rows, number):
    rows.write.format("delta").mode("append").saveAsTable("t")
    rows.write.format("delta").mode("append").save("/u")
"""

    assert replacements(text) == [
        f'{ONCE}(rows, number, "/path/of/the/table")  # in a pipeline, write to tables by path',
        f'{ONCE}(rows, number, "/u")',
    ]


@pytest.mark.parametrize(
    "body",
    [
        "rows.limit(0).write.format('delta').mode('append').save('/t')",
        "spark.createDataFrame([], 'id INT').write.format('delta').mode('append').save('/t')",
        "requests.post(url, json=1, headers={'idempotency-key': str(number)})",
        "headers = {'Idempotency-Key': str(number)}; requests.post(url, json=1, headers=headers)",
        "requests.post(url, json=1, headers=made_elsewhere)",
        "headers = {'a': 'b'}; headers[name] = str(number); requests.post(url, json=1, headers=headers)",
        "requests.post(url, **given)",
        "requests.put(url, json=1)",
    ],
)
def test_harmless_or_idempotent_writes_are_not_reported(replacements, body):
    assert replacements(WORK.format(body=body)) == []


@pytest.mark.parametrize(
    ("post", "instead"),
    [
        ("requests.post(url)", 'headers={"Idempotency-Key": f"work-1-{number}"}'),
        (
            "requests.post(url, headers={'Authorization': token})",
            'headers={\'Authorization\': token, "Idempotency-Key": f"work-1-{number}"}',
        ),
        (
            "headers = {'Authorization': token}; requests.post(url, headers=headers)",
            'headers={**headers, "Idempotency-Key": f"work-1-{number}"}',
        ),
        (
            "for row in rows.toLocalIterator(): requests.post(url, json=row.asDict())",
            'headers={"Idempotency-Key": f"work-1-{number}-{key_of_the_payload}"}',
        ),
    ],
)
def test_fix_of_a_request_keeps_its_headers_and_adds_an_idempotency_key(replacements, post, instead):
    assert replacements(WORK.format(body=post)) == [instead]


@pytest.mark.parametrize(
    ("given", "frame"),
    [
        ("lambda df, i: write(df, i, 't')", "rows"),
        ("lambda df, i: write(df.filter('x'), name='t', number=i)", "rows"),
        ("functools.partial(write, name='t')", "rows"),
    ],
)
def test_functions_called_by_a_foreach_batch_function_are_checked(replacements, given, frame):
    text = f"""
import functools
def write(rows, number, name):
    rows.write.format("delta").mode("append").saveAsTable(name)
spark.readStream.table("a").writeStream.option("checkpointLocation", "/c").foreachBatch({given}).start()
"""

    assert replacements(text) == [f"{ONCE}({frame}, number, name)"]


def test_methods_called_by_a_foreach_batch_method_are_checked(found):
    text = """
        class Job:
            def __init__(self, spark):
                self.spark = spark
            def write(self, rows, number):
                self.keep(rows, number)
            def keep(self, rows, number):
                rows.write.format("delta").mode("append").save("/t")
                self.spark.table("t").collect()
            def run(self, stream):
                stream.writeStream.option("checkpointLocation", "/c").foreachBatch(self.write).start()
        """

    assert found(text) == [("foreach-batch-not-idempotent", 7), ("global-session-in-foreach-batch", 8)]


MERGE = """
def work(rows, number):
    {body}
{stream}.writeStream.option("checkpointLocation", "/c").outputMode("update").foreachBatch(work).start()
"""
STREAM = 'spark.readStream.table("a")'
PYTHON = "DeltaTable.forPath(spark, '/t').alias('t').merge({rows}.alias('s'), '{on}'){clauses}.execute()"
ALL = ".whenMatchedUpdateAll().whenNotMatchedInsertAll()"
GREATEST = '  # keeps the greatest row of each key; set sequence_by="column" to choose the order'
NEWEST = (
    '.withColumn("n", F.row_number().over(Window.partitionBy("id").orderBy(F.desc(order_column))))'
    '.where("n = 1").drop("n")  # before the MERGE'
)
SQL = "rows.filter('x').createOrReplaceTempView('v'); rows.sparkSession.sql('MERGE INTO a.t USING v ON t.id = v.id {}')"


@pytest.mark.parametrize(
    ("body", "instead"),
    [
        (
            PYTHON.format(rows="rows.select('id')", on="t.id = s.id", clauses=ALL),
            f'headrace.delivery.upsert(rows.select(\'id\'), number, "/t", keys=["id"]){GREATEST}',
        ),
        # What does more than to replace and to insert stays a MERGE.
        (
            PYTHON.format(rows="rows", on="t.id = s.id AND t.day > 3", clauses=ALL),
            f"rows{NEWEST}",
        ),
        (
            PYTHON.format(rows="rows", on="t.id = s.id", clauses=f".whenMatchedDelete('s.gone'){ALL}"),
            f"rows{NEWEST}",
        ),
        (
            SQL.format("WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
            f'headrace.delivery.upsert(rows.filter(\'x\'), number, "a.t", keys=["id"]){GREATEST}',
        ),
        (SQL.format("WHEN MATCHED THEN UPDATE SET *"), f"rows.filter('x'){NEWEST}"),
    ],
)
def test_fix_of_a_merge_uses_names_from_the_program(replacements, body, instead):
    assert replacements(MERGE.format(body=body, stream=STREAM), "merge-several-rows") == [instead]


@pytest.mark.parametrize(
    ("body", "stream"),
    [
        (PYTHON.format(rows="rows", on="t.id = s.id", clauses=ALL), f"{STREAM}.groupBy('id').count()"),
        (PYTHON.format(rows="rows", on="t.id = s.id", clauses=ALL), f"{STREAM}.dropDuplicates(['id'])"),
        (PYTHON.format(rows="rows.dropDuplicates(['id'])", on="t.id = s.id", clauses=ALL), STREAM),
        (PYTHON.format(rows="spark.sql('SELECT DISTINCT id FROM v')", on="t.id = s.id", clauses=ALL), STREAM),
    ],
)
def test_merge_is_not_reported_if_its_keys_may_be_unique(replacements, body, stream):
    assert replacements(MERGE.format(body=body, stream=stream), "merge-several-rows") == []


def test_limit_is_reported_in_update_mode_but_not_in_complete_mode(found):
    text = """
        def work(rows, number):
            rows.orderBy("count").limit(10).write.mode("overwrite").saveAsTable("top")
        counts = spark.readStream.table("a").groupBy("id").count()
        counts.writeStream.outputMode("{}").option("checkpointLocation", "/c").foreachBatch(work).start()
        """

    complete, update = ([rule for rule, _ in found(text.format(mode))] for mode in ("complete", "update"))

    assert "limit-in-foreach-batch" not in complete
    assert "limit-in-foreach-batch" in update


def test_fix_of_show_is_a_separate_console_query(replacements):
    text = WORK.format(body="rows.show()")

    assert replacements(text, "show-in-foreach-batch") == [
        'spark.readStream.table("a").writeStream.format("console").start()  # a separate query, while you debug'
    ]
