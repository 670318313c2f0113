"""Tables that get their rows without Spark jobs, as Spark reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.model.outcome import UpdateState
from headrace.spark.delta.small_append import SmallAppends, refresh_caches

pytestmark = pytest.mark.spark

# Of each type values that statistics of a file could hide.
VALUES = {
    "long": ("-9223372036854775808L", "9223372036854775807L", "NULL"),
    "double": ("double('NaN')", "double('-Infinity')", "-0.0D", "1e-300D"),
    "float": ("float('NaN')", "0.1F", "-3.4e38F"),
    "string": ("''", "repeat('é', 40)", "concat(repeat('a', 32), 'b')", "'\\u10ffff'"),
    "date": ("date'0001-01-01'", "date'9999-12-31'", "date'1969-12-31'"),
    "timestamp": ("timestamp'0001-01-02 00:00:00.000001'", "timestamp'9999-12-30 23:59:59.999999'", "NULL"),
    "timestamp_ntz": ("timestamp_ntz'1969-12-31 23:59:59.999999'", "timestamp_ntz'2026-01-01 00:00:00.0015'"),
    "decimal(38,18)": ("12345678901234567890.123456789012345678BD", "-0.000000000000000001BD"),
    "binary": ("X'00FF'", "X''"),
    "boolean": ("true", "false"),
    "struct<a: array<timestamp>, b: map<string, date>>": (
        "named_struct('a', array(timestamp'2026-01-01'), 'b', map('x', date'2026-01-01'))",
        "named_struct('a', NULL, 'b', map())",
    ),
}
COMPARABLE = [kind for kind in VALUES if not kind.startswith("struct")]


def appends(path, app="flow"):
    return SmallAppends(path, app)


@pytest.fixture
def table(headrace_session, tmp_path):
    """A clustered table with a column of each type."""
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES))
    path = str(tmp_path / "t")
    headrace_session.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta CLUSTER BY (c0)")
    return path


def row(number):
    """The values with this number, each as its column."""
    chosen = (values[number % len(values)] for values in VALUES.values())
    return ", ".join(
        f"CAST({value} AS {kind}) AS c{n}" for n, (kind, value) in enumerate(zip(VALUES, chosen, strict=True))
    )


def test_spark_finds_each_value_by_a_filter(headrace_session, table):
    writer = appends(table)

    for number in range(4):
        assert writer.append(headrace_session.sql(f"SELECT {row(number)}"), 1, number)

    wanted = [(f"c{n}", value) for n, kind in enumerate(VALUES) if kind in COMPARABLE for value in VALUES[kind]]
    queries = (
        f"SELECT '{column} {number}' AS q, count(*) AS n FROM delta.`{table}` WHERE {column} <=> {value}"
        for number, (column, value) in enumerate(wanted)
    )
    found = headrace_session.sql(" UNION ALL ".join(queries)).collect()
    assert [one["q"] for one in found if not one["n"]] == []
    expected = headrace_session.sql(" UNION ALL ".join(f"SELECT {row(number)}" for number in range(4)))
    stored = headrace_session.read.format("delta").load(table)
    assert sorted(map(repr, stored.collect())) == sorted(map(repr, expected.collect()))


def test_the_checksum_is_that_of_the_table(headrace_session, table):
    writer = appends(table)
    for number in range(3):
        writer.append(headrace_session.sql(f"SELECT {row(number)}"), 1, number)

    jvm = headrace_session._jvm
    snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(headrace_session._jsparkSession, table).update(
        False,  # noqa: FBT003 - Java has no keywords
        jvm.scala.Option.empty(),
        jvm.scala.Option.empty(),
    )
    assert snapshot.checksumOpt().isDefined()
    assert (snapshot.checksumOpt().get().numFiles(), snapshot.numOfFiles()) == (3, 3)
    assert snapshot.validateChecksum(jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({}))


def test_spark_and_small_appends_take_turns(headrace_session, table):
    ours, rows = appends(table), headrace_session.sql(f"SELECT {row(0)}")
    ours.append(rows, 1, 0)
    options = {"txnAppId": "flow", "txnVersion": "1"}
    rows.write.format("delta").mode("append").options(**options).save(table)

    assert ours.append(rows, 1, 1)
    assert ours.append(rows, 1, 2)
    rows.write.format("delta").mode("append").options(**options | {"txnVersion": "2"}).save(table)
    assert headrace_session.read.format("delta").load(table).count() == 3
    headrace_session.sql(f"DELETE FROM delta.`{table}`")
    headrace_session.sql(f"OPTIMIZE delta.`{table}`")
    assert headrace_session.read.format("delta").load(table).count() == 0


def test_many_rows_and_other_columns_are_left_to_spark(headrace_session, table):
    ours = appends(table)

    assert not ours.append(headrace_session.sql(f"SELECT {row(0)}"), 1_000_000, 0)
    assert not ours.append(headrace_session.sql("SELECT 1L AS c0"), 1, 0)
    assert headrace_session.read.format("delta").load(table).count() == 0


def test_what_settings_ask_of_deltas_writer_is_left_to_it(headrace_session, table):
    key = "spark.databricks.delta.commitInfo.userMetadata"
    headrace_session.conf.set(key, "by us")
    try:
        assert not appends(table).append(headrace_session.sql(f"SELECT {row(0)}"), 1, 0)
    finally:
        headrace_session.conf.unset(key)


def test_the_log_gets_a_checkpoint_now_and_then_and_caches_get_the_new_rows(headrace_session, table):
    headrace_session.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.checkpointInterval' = '3')")
    cached = headrace_session.read.format("delta").load(table).cache()
    assert cached.count() == 0

    writer = appends(table)
    for number in range(2):
        assert writer.append(headrace_session.sql(f"SELECT {row(number)}"), 1, number)
    refresh_caches(headrace_session, table)

    checkpoint = json.loads((Path(table) / "_delta_log" / "_last_checkpoint").read_text())
    assert (checkpoint["version"], cached.count()) == (3, 2)
    cached.unpersist()


def test_frames_of_more_rows_than_the_setting_are_left_to_spark(headrace_session, table):
    """Guards that the limit is the setting of the session that a flow runs in."""
    headrace_session.conf.set("headrace.small_batches.rows", "2")
    try:
        writer = appends(table)
        rows = headrace_session.sql(f"SELECT {row(0)}")

        assert [writer.append(rows, count, count) for count in (3, 2)] == [False, True]
    finally:
        headrace_session.conf.unset("headrace.small_batches.rows")


WRITERS = """
    def numbers():
        return spark.readStream.schema("n LONG").json({landing!r})

    @dp.table
    def small():
        return numbers()

    @dp.table(spark_conf={{"headrace.small_batches.rows": "0"}})
    def large():
        return numbers()
"""


def test_the_setting_of_a_flow_decides_who_commits_its_batches(project, tmp_path):
    """Guards the way of the setting into the session in which batches are written; each flow has its own."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text('{"n": 1}')
    pipeline = project(WRITERS.format(landing=str(tmp_path / "landing")))

    assert pipeline.run().state is UpdateState.COMPLETED

    writers = {}
    for name in ("small", "large"):
        log = Path(pipeline.settings.layout.root, "tables/default", name, "_delta_log")
        actions = [json.loads(line) for file in log.glob("*.json") for line in file.read_text().splitlines()]
        (writers[name],) = {
            one["commitInfo"]["engineInfo"].split("/")[0]
            for one in actions
            if one.get("commitInfo", {}).get("operation") in ("WRITE", "STREAMING UPDATE")
        }
    assert writers == {"small": "headrace", "large": "Apache-Spark"}
