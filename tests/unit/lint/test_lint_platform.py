"""What only the vendor's platform has, with a notebook session and without one; and queries that are looked at."""

from __future__ import annotations

import pytest

from headrace.lint.lint_files import lint_text
from headrace.lint.rules import Severity

READY = "import headrace\nspark = headrace.spark_session()\n"
ROWS = 'rows = spark.readStream.format("delta").load("/x")\n'
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def setting(name, value):
    return f'spark.conf.set("{name}", "{value}")'


@pytest.mark.parametrize(
    ("rule_id", "text"),
    [
        ("setting-without-effect", setting("spark.sql.streaming.maxRetries", "3")),
        ("setting-without-effect", setting("spark.databricks.delta.autoOptimize.optimizeWrite.enabled", "true")),
        ("vendor-setting", setting("spark.sql.shuffle.partitions", "auto")),
        ("vendor-setting", setting(PROVIDER, "com.databricks.sql.streaming.state.RocksDBStateStoreProvider")),
        ("fixed-setting", setting("spark.executor.memory", "8g")),
        ("writer-table", 'rows.writeStream.option("checkpointLocation", "/c").table("t")'),
        ("started-twice", 'rows.writeStream.option("checkpointLocation", "/c").table("t").start()'),
        ("missing-checkpoint", 'rows.writeStream.toTable("t")'),
        ("missing-target", 'rows.writeStream.format("delta").option("checkpointLocation", "/c").start()'),
        ("vendor-source", 'spark.readStream.format("cloudFiles").load("/x")'),
    ],
)
def test_features_of_the_notebook_session_are_reported_only_without_it(found, rule_id, text):
    plain, ready = ([rule for rule, _ in found(begin + ROWS + text)] for begin in ("", READY))

    assert rule_id in plain
    assert ready == []


@pytest.mark.parametrize(
    ("rule_id", "text"),
    [
        ("setting-without-effect", setting("spark.databricks.io.cache.enabled", "true")),
        ("vendor-setting", setting(PROVIDER, "com.databricks.Other")),
        ("vendor-setting", setting("spark.sql.shuffle.partitions", "many")),
        ("writer-table", 'rows.writeStream.option("checkpointLocation", "/c").save("/x")'),
        ("started-twice", 'rows.writeStream.option("checkpointLocation", "/c").start("/x").start()'),
        ("vendor-name", "display(rows)"),
    ],
)
def test_unsupported_features_are_reported_even_with_a_notebook_session(found, rule_id, text):
    assert [rule for rule, _ in found(READY + ROWS + text)] == [rule_id]


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (setting("spark.sql.streaming.maxRetries", "3"), "spark = headrace.spark_session()  # supports this setting"),
        (
            setting("spark.databricks.delta.autoOptimize.autoCompact.enabled", "true"),
            '"spark.databricks.delta.autoCompact.enabled"',
        ),
        ("display(rows)", "headrace exec FILE"),
        (f"{READY}display(rows)", "from headrace import display"),
        ('w = rows.writeStream.option("checkpointLocation", "/c"); w.save("/x/y")', '.start("/x/y")'),
        ('w = rows.writeStream.option("checkpointLocation", "/c"); w.save(path=base)', ".start(base)"),
        ('w = rows.writeStream.option("checkpointLocation", "/c"); w.table(tableName="t")', '.toTable("t")'),
        ('w = rows.writeStream.option("checkpointLocation", "/c"); w.saveAsTable("t")', '.toTable("t")'),
    ],
)
def test_fix_is_the_equivalent_of_the_platform_feature(text, instead):
    (finding,) = lint_text(ROWS + text, ".py", "a.py").findings

    assert finding.fix == instead


@pytest.mark.parametrize(
    "text",
    [
        'if "dbutils" in globals():\n    dbutils.widgets.get("a")',
        'try:\n    dbutils.widgets.get("a")\nexcept NameError:\n    pass',
        'try:\n    dbutils.widgets.get("a")\nexcept (KeyError, NameError):\n    pass',
        'try:\n    dbutils.widgets.get("a")\nexcept:\n    pass',
    ],
)
def test_optional_vendor_name_is_not_reported(found, text):
    assert found(text) == []


def test_vendor_name_is_reported_if_only_another_exception_is_caught(found):
    assert found('try:\n    dbutils.widgets.get("a")\nexcept KeyError:\n    pass') == [("vendor-name", 2)]


@pytest.mark.parametrize(
    ("asked", "severity"),
    [
        ('query.status["id"]', Severity.ERROR),
        ('query.status.get("id")', Severity.WARNING),
        ('query.recentProgress[0]["rows"]', Severity.ERROR),
        ('query.recentProgress[0].get("rows", 0)', Severity.WARNING),
    ],
)
def test_missing_key_is_an_error_if_it_raises_and_otherwise_a_warning(asked, severity):
    text = f'{ROWS}query = rows.writeStream.format("noop").start()\nprint({asked})'

    (finding,) = lint_text(text, ".py", "a.py").findings

    assert finding.severity is severity


START = 'query = rows.writeStream.format("noop").start()\n'
READ = 'n = query.lastProgress["numInputRows"]\n'


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (START + READ, [3]),
        (f'{START}print("started")\n{READ}', [4]),
        (f"def go():\n    {START}    {READ}", [4]),
        (f"{START}query.processAllAvailable()\n{READ}", []),
        (f"{START}time.sleep(5)\n{READ}", []),
        (f"{START}wait_for(query)\n{READ}", []),
        (f"{START}while query.isActive:\n    {READ}", []),
        (f"{START}if query.lastProgress:\n    {READ}", []),
        (f"{START}last = query.lastProgress\n", []),
        (f'{START}last = query.lastProgress\nprint(last["batchId"])\n', [4]),
        (f'{START}last = query.lastProgress\ntime.sleep(5)\nprint(last["batchId"])\n', [5]),
        (f'{START}print(query.lastProgress.get("batchId"))\n', [3]),
        (f'{START}last = query.lastProgress\nif last:\n    print(last["batchId"])\n', []),
        (f'{START}last = query.lastProgress\nlast = {{}}\nprint(last["batchId"])\n', []),
        (f'{START}time.sleep(5)\nlast = query.lastProgress\nprint(last["batchId"])\n', []),
        (f"{START}other = 1\nquery = found()\n{READ}", []),
    ],
)
def test_progress_read_right_after_the_query_start_is_reported(found, text, lines):
    assert [line for rule, line in found(ROWS + text) if rule == "progress-too-early"] == lines


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('spark.conf.set("fs.azure.account.key.a.dfs.core.windows.net", "c2VjcmV0")', "fs.azure.account.key.a"),
        ('spark.conf.set(f"fs.azure.account.key.{name}.dfs.core.windows.net", "c2VjcmV0")', "fs.azure.account.key."),
        ('spark.sparkContext._jsc.hadoopConfiguration().set("fs.s3a.secret.key", "c2VjcmV0")', "fs.s3a.secret.key"),
        ('spark.read.jdbc(url, "t", properties={"password": "c2VjcmV0"})', "password"),
        ('given = {"user": "a", "password": "c2VjcmV0"}\nspark.read.jdbc(url, "t", properties=given)', "password"),
        ('spark.read.options(**{"password": "c2VjcmV0"}).load()', "password"),
        ('spark.read.option("kafka.ssl.truststore.password", "c2VjcmV0").load()', "kafka.ssl.truststore.password"),
    ],
)
def test_secret_in_settings_or_options_is_reported(text, name):
    (finding,) = lint_text(text, ".py", "a.py").findings

    assert finding.rule.id == "secret-in-text"
    assert f'"{name}' in finding.message
    assert "c2VjcmV0" not in finding.line_text


@pytest.mark.parametrize(
    "text",
    [
        'spark.conf.set("fs.azure.account.key.a.dfs.core.windows.net", dbutils_secret)',
        'spark.read.jdbc(url, "t", properties={"password": os.environ["P"], "user": "shop"})',
        'spark.read.jdbc(url, "t", properties={"password": "${PASSWORD}"})',
        'spark.conf.set("spark.sql.shuffle.partitions", "200")',
    ],
)
def test_values_that_are_not_secrets_are_not_reported(found, text):
    assert found(text) == []
