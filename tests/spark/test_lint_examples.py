"""The examples of the rules of lint, run: what is to fail fails, what is a trap is seen to be one, the rest works."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.stream_end import ends

from headrace.errors import Problems
from headrace.lint.catalog import RULES
from headrace.lint.fixes import fix_text
from headrace.spark.notebook.notebook_session import activated
from headrace.testing.warm import unchanged

pytestmark = pytest.mark.spark

DERBY = "jdbc:derby:memory:lint;create=true"
FAILS = {
    "stream-distinct-count": "Distinct aggregations are not supported on streaming",
    "groups-with-state": "Attribute `groupByKey` is not supported",
    "stream-cache": "Queries with streaming sources must be executed with writeStream.start()",
    "stream-action": "Queries with streaming sources must be executed with writeStream.start()",
    "stream-sort": "Sorting is not supported on streaming",
    "stream-sample": "Sampling is not supported on streaming",
    "static-outer-join": "LeftOuter join with a streaming DataFrame/Dataset on the right and a static",
    "column-precedence": "CANNOT_CONVERT_COLUMN_INTO_BOOL",
    "stream-window-function": "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
    "no-watermark": "not supported for streaming aggregations without watermark",
    "writer-table": "'DataStreamWriter' object has no attribute 'table'",
    "started-twice": "'StreamingQuery' object has no attribute 'start'",
    "missing-checkpoint": "checkpointLocation must be specified",
    "continuous-trigger": "Continuous processing does not support Aggregate",
    "trigger-value": "VALUE_NOT_TRUE",
    "missing-target": "'path' is not specified",
    "output-mode": "DELTA_UNSUPPORTED_OUTPUT_MODE",
    "global-session-in-foreach-batch": "TABLE_OR_VIEW_NOT_FOUND",
    "merge-several-rows": "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    "changed-source": "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    "missing-path": "'path' is not specified",
    "missing-schema": "Schema must be specified when creating a streaming source",
    "create-data-frame-column": "CANNOT_INFER_TYPE_FOR_FIELD",
    "status-keys": "KeyError: 'id'",
    "progress-keys": "KeyError: 'inputRows'",
    "progress-too-early": "TypeError: 'NoneType' object is not subscriptable",
    "listener-base-class": "'Watcher' object has no attribute '_jlistener'",
    "vendor-setting": "INVALID_CONF_VALUE",
    "fixed-setting": "CANNOT_MODIFY_CONFIG",
    "vendor-name": "name 'display' is not defined",
    "vendor-system-table": "REQUIRES_SINGLE_PART_NAMESPACE",
}


@dataclass
class Ran:
    """What an example left behind."""

    names: dict[str, Any]
    folder: Path
    session: Any

    def rows(self, table: str, columns: str = "id") -> list[Any]:
        found = self.session.read.format("delta").load(str(self.folder / "tables" / table)).select(columns).collect()
        return sorted(row[0] for row in found)

    def versions(self, table: str) -> int:
        return len(list((self.folder / "tables" / table / "_delta_log").glob("*.json")))

    def plan(self, name: str) -> str:
        return str(self.names[name]._jdf.queryExecution().executedPlan().toString())

    def kept_keys(self) -> int:
        return self.names["query"].lastProgress["stateOperators"][0]["numRowsTotal"]


@pytest.fixture
def run(headrace_session, tmp_path):
    """Runs an example on ten orders in two files, and on a file of the same orders that repeats one."""
    orders = [{"id": n, "customer": f"c{n % 3}", "at": f"2026-01-01T0{n}:00:00"} for n in range(10)]
    for name, parts in {"orders": (orders[:5], orders[5:]), "repeated": (orders[:5], [orders[4]])}.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        for number, rows in enumerate(parts):
            text = "\n".join(map(json.dumps, rows))
            (tmp_path / "data" / name / f"{number}.json").write_text(text)

    def call(text):
        names = {"spark": headrace_session, "__name__": "example", "ends": ends}
        text = below(tmp_path, text).replace("query.awaitTermination(30)", "ends(query)")
        exec(compile(text, "example.py", "exec"), names)
        return Ran(names, tmp_path, headrace_session)

    with unchanged(headrace_session, tmp_path), activated(None):
        headrace_session.conf.set("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "true")
        yield call
    for query in headrace_session.streams.active:
        query.stop()
    for table in headrace_session.sql("SHOW TABLES LIKE 'lint_*'").collect():
        headrace_session.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} IF EXISTS {table.tableName}")


def below(folder, text):
    """An example whose absolute paths are below a folder."""
    for root in ("/data/", "/checkpoints/", "/tables/"):
        text = text.replace(f'"{root}', f'"{folder}{root}')
    return text


def example(rule_id, kind):
    return next(getattr(rule, kind) for rule in RULES if rule.id == rule_id)


SLOW_RULES = ("changed-source", "merge-several-rows")
SLOW_FAILS = (*SLOW_RULES, "started-twice")
OTHER_CASES = pytest.mark.long(guard="its other cases")


@pytest.mark.parametrize(
    "rule_id", [pytest.param(one, marks=OTHER_CASES if one in SLOW_FAILS else ()) for one in FAILS]
)
def test_failing_examples_raise_the_error_that_their_rule_describes(run, rule_id):
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of many kinds; what it says is compared
        run(example(rule_id, "failing"))

    assert FAILS[rule_id] in f"{type(raised.value).__name__}: {raised.value}"


ALL = list(range(10))
PASSES = {
    "stream-distinct-count": (lambda ran: ran.rows("counts", "customers"), [3]),
    "groups-with-state": (lambda ran: ran.rows("counts", "orders"), [3, 3, 4]),
    "stream-cache": (lambda ran: (ran.rows("first"), ran.rows("second")), (ALL[3:], ALL[3:])),
    "stream-action": (lambda ran: ran.names["seen"], 10),
    "stream-sort": (lambda ran: ran.names["ids"], ALL),
    "stream-sample": (lambda ran: 0 < len(ran.rows("some")) < len(ALL), True),
    "static-outer-join": (lambda ran: ran.rows("named"), ALL),
    "column-precedence": (lambda ran: ran.names["ids"], [7]),
    "stream-window-function": (lambda ran: ran.rows("first", "customer"), ["c0", "c1", "c2"]),
    # Ten minutes before the newest order, the last two hours are not over.
    "no-watermark": (lambda ran: ran.rows("hours", "count"), [1] * 8),
    "writer-table": (lambda ran: ran.session.table("lint_orders").count(), 10),
    "started-twice": (lambda ran: ran.session.table("lint_started").count(), 10),
    "missing-checkpoint": (lambda ran: ran.rows("orders"), ALL),
    "continuous-trigger": (lambda ran: ran.names["query"].exception(), None),
    "trigger-value": (lambda ran: ran.names["rows"], 10),
    "missing-target": (lambda ran: ran.rows("orders"), ALL),
    "output-mode": (lambda ran: len(ran.rows("counts", "count")), 10),
    "global-session-in-foreach-batch": (lambda ran: ran.names["seen"], [10]),
    "merge-several-rows": (lambda ran: ran.session.table("lint_merged").count(), 5),
    "changed-source": (lambda ran: ran.rows("copy"), [1, 2]),
    "missing-path": (lambda ran: ran.names["orders"].isStreaming, True),
    "missing-schema": (lambda ran: ran.names["orders"].isStreaming, True),
    "create-data-frame-column": (lambda ran: ran.names["batches"].first().processed_at is not None, True),
    "status-keys": (lambda ran: ran.names["query"].id is not None, True),
    "progress-keys": (lambda ran: ran.names["rows"] in (0, 10), True),
    "progress-too-early": (lambda ran: ran.names["rows"], 10),
    "listener-base-class": (lambda ran: ran.names["started"] == [ran.names["query"].id], True),
    "vendor-setting": (lambda ran: ran.session.conf.get("spark.sql.shuffle.partitions"), "4"),
    "fixed-setting": (lambda ran: ran.names["builder"]._options["spark.executor.memory"], "8g"),
    "vendor-name": (lambda ran: ran.names["orders"].count(), 10),
    "vendor-system-table": (lambda ran: ran.names["active"], []),
}


SLOW_PASSES = (
    *(*SLOW_RULES, "no-watermark", "groups-with-state", "stream-window-function", "stream-cache"),
    *("writer-table", "started-twice", "output-mode", "static-outer-join"),
    *("stream-distinct-count", "missing-checkpoint", "stream-sample", "stream-sort"),
)


@pytest.mark.parametrize(
    "rule_id", [pytest.param(one, marks=OTHER_CASES if one in SLOW_PASSES else ()) for one in PASSES]
)
def test_passing_examples_return_the_expected_result(run, rule_id):
    found, expected = PASSES[rule_id]

    assert found(run(example(rule_id, "passing"))) == expected


# Those that are not as the passing program; that of listener-base-class is the first line of its class.
FIXED = ("stream-cache", "continuous-trigger", "trigger-value", "column-precedence", "status-keys", "started-twice")


@pytest.mark.parametrize(
    "rule_id", [pytest.param(one, marks=OTHER_CASES if one in SLOW_FAILS else ()) for one in FIXED]
)
def test_failing_examples_run_when_lint_has_fixed_them(run, rule_id):
    failing = example(rule_id, "failing")
    text = fix_text(failing, ".py", "a.py").text

    ran = run(text)

    assert text != failing
    assert all(query.exception() is None for query in ran.session.streams.active)


# What both examples leave behind, and what of that the trap is.
TRAPS = {
    "input-file-name": (
        lambda ran: {name.rpartition("/")[2] for name in ran.names["names"]},
        {""},
        {"0.json", "1.json"},
    ),
    "unbounded-state": (Ran.kept_keys, 10, 1),
    "never-ending-timeout": (lambda ran: ran.names["ended"], False, True),
    "shared-checkpoint": (lambda ran: (ran.folder / "tables" / "large").exists(), False, True),
    "new-checkpoint": (lambda ran: ran.rows("orders"), sorted(ALL * 2), ALL),
    "once-trigger": (lambda ran: ran.versions("orders"), 1, 2),
    "limit-in-foreach-batch": (lambda ran: len(ran.rows("orders")), 3, 10),
    "show-in-foreach-batch": (lambda ran: ran.names["computed"].value, 20, 10),
    "batch-computed-again": (lambda ran: ran.names["computed"].value, 20, 10),
    "duplicates-across-batches": (lambda ran: ran.rows("orders"), [0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4]),
    "change-types": (lambda ran: ran.names["names"], set(), {"new"}),
    "ignore-changes": (lambda ran: ran.rows("copy"), [1, 1, 2, 2], [1, 2]),
    "large-broadcast": (lambda ran: "BroadcastHashJoin" in ran.plan("joined"), True, False),
    "exception-not-called": (lambda ran: ran.names["failed"], True, False),
    # The fourth write is not the last commit where files are compacted.
    "setting-without-effect": (lambda ran: ran.versions("small") > 4, False, True),
}


# Each of these runs several streams or statements.
LONG = pytest.mark.long(
    guard=(
        "its other cases",
        "tests/spark/test_lint_claims.py::test_processing_time_timers_keep_an_available_now_stream_from_ending",
        "tests/spark/test_notebook_session.py::test_writer_options_that_are_delta_settings_take_effect",
    )
)
SLOW = (
    *("ignore-changes", "setting-without-effect", "duplicates-across-batches", "new-checkpoint"),
    *("limit-in-foreach-batch", "unbounded-state", "change-types"),
    *("never-ending-timeout", "shared-checkpoint", "once-trigger", "batch-computed-again"),
)


@pytest.mark.parametrize("kind", ["failing", "passing"])
@pytest.mark.parametrize("rule_id", [pytest.param(one, marks=LONG if one in SLOW else ()) for one in TRAPS])
def test_failing_examples_have_the_described_side_effect_and_passing_ones_do_not(run, rule_id, kind):
    found, trapped, right = TRAPS[rule_id]

    assert found(run(example(rule_id, kind))) == (trapped if kind == "failing" else right)


@pytest.mark.parametrize(
    ("kind", "rows"), [pytest.param("failing", sorted(ALL * 2), marks=OTHER_CASES), ("passing", ALL)]
)
def test_a_repeated_batch_is_appended_again_unless_it_has_a_transaction_id(run, kind, rows):
    text = example("foreach-batch-not-idempotent", kind)
    ran = run(text)
    # As if the program had died between the write and the note that the batch is done.
    (ran.folder / "checkpoints" / "orders" / "commits" / "0").unlink()
    (ran.folder / "checkpoints" / "orders" / "commits" / ".0.crc").unlink(missing_ok=True)

    again = run(text)

    assert again.rows("orders") == rows


@pytest.mark.parametrize(("kind", "join"), [("failing", "SortMergeJoin"), ("passing", "BroadcastHashJoin")])
def test_a_table_of_unknown_size_is_broadcast_only_with_a_broadcast_hint(run, headrace_session, kind, join):
    customers = headrace_session.createDataFrame([("c1", "Ada")], "customer STRING, name STRING")
    options = {"url": DERBY, "driver": "org.apache.derby.jdbc.EmbeddedDriver", "dbtable": "customers"}
    customers.write.format("jdbc").options(**options).mode("overwrite").save()

    ran = run(example("missing-broadcast", kind))

    assert join in ran.names["query"]._jsq.explainInternal(False)  # noqa: FBT003 - a method of Java


@pytest.mark.parametrize(("kind", "password"), [("failing", "Winter2026"), ("passing", "of-the-environment")])
def test_the_password_comes_from_the_code_or_from_the_environment(run, headrace_session, kind, password, monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "of-the-environment")
    customers = headrace_session.createDataFrame([("c1", "Ada")], "customer STRING, name STRING")
    options = {"url": DERBY, "driver": "org.apache.derby.jdbc.EmbeddedDriver", "dbtable": "customers"}
    customers.write.format("jdbc").options(**options).mode("overwrite").save()

    ran = run(example("secret-in-text", kind))

    assert ran.names["orders"].count() == 1
    assert options_of(ran.names["orders"]).get("password").get() == password


def options_of(frame):
    """What a table behind JDBC is read with."""
    return frame._jdf.queryExecution().analyzed().relation().jdbcOptions().parameters()


@pytest.mark.parametrize(
    ("rule_id", "code"),
    [
        ("stream-started-in-pipeline", "FLOW.ACTION"),
        ("changes-into-query", "CDC.NOT_ALONE"),
        ("statement-in-file", "FILE.SQL_NOT_QUERY"),
    ],
)
def test_validation_rejects_failing_pipeline_examples_and_accepts_passing_ones(project, run, tmp_path, rule_id, code):
    failing, passing = (project(below(tmp_path, example(rule_id, kind))) for kind in ("failing", "passing"))

    with pytest.raises(Problems) as raised:
        failing.project.validate()
    passing.project.validate()

    assert [error.code for error in raised.value] == [code]


def test_a_kafka_client_expects_kerberos_unless_a_sasl_mechanism_is_set(run):
    options = {
        kind: dict(re.findall(r'option\("kafka\.([a-z.]+)", f?["\'](.+)["\']\)', example("kafka-mechanism", kind)))
        for kind in ("failing", "passing")
    }
    clients = run("pass").session._jvm.org.apache.kafka.clients.admin.AdminClient
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required username='a' password='b';"

    with pytest.raises(Exception, match="No serviceName defined") as raised:
        clients.create({**options["failing"], "sasl.jaas.config": login})
    clients.create({**options["passing"], "sasl.jaas.config": login}).close()

    assert "Failed to create new KafkaAdminClient" in str(raised.value)


@pytest.mark.long(guard="tests/spark/test_auto_loader.py::test_a_script_fails_once_on_a_new_field_and_then_continues")
def test_the_cloud_files_source_is_available_only_with_headrace(run, tmp_path):
    # In a process of its own: this one has read Auto Loader's sources already.
    program = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.master('local[1]').getOrCreate()\n"
    plain = subprocess.run(
        [sys.executable, "-c", program + example("vendor-source", "failing")],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=tmp_path,
    )

    ran = run(example("vendor-source", "passing"))

    assert "Failed to find the data source: cloudFiles" in plain.stderr
    assert ran.names["files"].isStreaming


def test_the_examples_of_every_lint_rule_are_tested():
    special = {"foreach-batch-not-idempotent", "missing-broadcast", "secret-in-text"}
    special |= {
        "stream-started-in-pipeline",
        "changes-into-query",
        "statement-in-file",
        "kafka-mechanism",
        "vendor-source",
    }
    # This one says nothing about Spark.
    said = {rule.id for rule in RULES} - {"unused-suppression"}

    assert said == set(FAILS) | set(TRAPS) | special
    assert set(FAILS) == set(PASSES)
