"""Real faults of real pipelines: each opens its alert, and its repair resolves it.

``pytest.mark.fires`` names the rules that a test lets fire; ``tests/unit/alerts`` checks that every rule has such a
test.
"""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.alert_watch import AlertWatch
from tests.servers.receiver import running_receiver

from headrace.errors import Problems
from headrace.model.maintenance import MaintenancePolicy, MaintenanceRequest, VacuumScope
from headrace.model.outcome import UpdateState
from headrace.plan import maintenance
from headrace.runtime import retry

pytestmark = pytest.mark.spark

RULES = "tests/unit/alerts/test_alerts.py::test_a_fault_is_found_by_its_own_rule_alone"

SINK = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    dp.create_sink("out", "http", {options!r})

    @dp.append_flow(target="out")
    def deliver():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
    """


def to_sink(server, **options):
    own = {"url": server.url, "concurrency": 1, "maxAttempts": 1}
    return SINK.format(options={**own, **options})


def rows(*numbers):
    return [{"id": number} for number in numbers]


def down(_request, _number):
    return 503


def up(_request, _number):
    return 200


@pytest.fixture
def server():
    with running_receiver() as found:
        yield found


def code_of(pipeline):
    return pipeline.folder / "transformations" / "project.py"


def change(pipeline, before, after):
    file = code_of(pipeline)
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


@pytest.mark.fires("update_refused")
def test_an_update_that_is_refused_opens_an_alert_until_one_starts(project):
    pipeline = project("""
        @dp.materialized_view
        def numbers():
            return spark.range(2)
        """)
    pipeline.run()
    watch = AlertWatch(pipeline.settings)
    assert watch.open_now() == set()
    change(pipeline, "spark.range(2)", 'spark.read.table("missing")')
    with pytest.raises(Problems):
        pipeline.run()

    assert watch.open_now() == {"update_refused"}
    change(pipeline, 'spark.read.table("missing")', "spark.range(2)")
    pipeline.run()
    assert watch.open_after(5) == set()


@pytest.mark.long(
    guard=(
        "tests/spark/test_spill_queue.py::test_batches_are_spilled_while_a_server_is_down_and_later_delivered_in_order"
    )
)
@pytest.mark.fires("sink_waiting")
def test_batches_that_wait_for_a_sink_open_an_alert_until_it_has_them(project, server):
    pipeline = project(to_sink(server, fallback="storage")).given("source", rows(1), rows(2))
    watch = AlertWatch(pipeline.settings)
    server.answer = down
    pipeline.run()

    assert (watch.open_now(), watch.open_after(5)) == (set(), {"sink_waiting"})
    server.answer = up
    pipeline.run()
    assert watch.open_after(10) == set()
    assert server.taken == rows(1, 2)


@pytest.mark.fires("sink_silent", "no_batches")
def test_a_sink_that_never_answers_opens_an_alert_during_the_first_batch(project, server):
    answered = threading.Event()
    server.answer = lambda _request, _number: answered.wait() and 200
    pipeline = project(to_sink(server)).given("source", rows(1))
    watch = AlertWatch(pipeline.settings)
    with pipeline.continuing() as update:
        update.wait_until(lambda: len(server.requests) == 1)

        assert watch.open_after(14) == set()
        assert watch.open_after(2) == {"sink_silent"}
        assert watch.open_after(45) == {"sink_silent", "no_batches"}
        answered.set()
        watch.later_s = 0
        update.wait_until(lambda: watch.open_after(1) == set())

    assert update.result.state is UpdateState.COMPLETED


@pytest.mark.long(guard=RULES)
@pytest.mark.fires("flow_restarting")
def test_a_flow_that_is_retried_again_and_again_opens_an_alert(project, server, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.01)
    pipeline = project(to_sink(server), max_flow_retries=5).given("source", rows(1))
    pipeline.run()
    watch = AlertWatch(pipeline.settings)
    watch.open_now()
    server.answer = lambda _request, number: 503 if number <= 4 else 200

    result = pipeline.given("source", rows(2)).run()

    assert (result.state, watch.open_after(1)) == (UpdateState.COMPLETED, {"flow_restarting"})
    assert watch.open_after(20) == set()


ROWS = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table(schema="at TIMESTAMP")
    def times():
        return spark.readStream.schema("at TIMESTAMP").json("unused")

    @dp.table
    @dp.expect_or_quarantine("positive", "id > 0")
    def numbers():
        return spark.readStream.table("source")

    @dp.table
    def hours():
        stream = spark.readStream.option("maxFilesPerTrigger", 1).table("times")
        return stream.withWatermark("at", "1 minute").groupBy(F.window("at", "1 hour")).count()

    @dp.table
    @dp.expect("fresh", dp.fresh("at", within="1 hour"))
    def newest():
        return spark.readStream.table("times")
    """


def at(minutes, since=None):
    return {"at": ((since or datetime(2026, 3, 1, 10, tzinfo=UTC)) + timedelta(minutes=minutes)).isoformat()}


@pytest.mark.long(guard=RULES)
@pytest.mark.fires("expectation_rate", "quarantine_growing", "rows_late")
def test_bad_and_late_rows_open_alerts_until_an_hour_has_none(project):
    pipeline = project(ROWS, alerts={"rules": {"quarantine_growing": {"threshold": 50}}})
    pipeline.given("source", rows(*range(1, 200))).given("times", [at(5)])
    pipeline.run("numbers", "hours")
    watch = AlertWatch(pipeline.settings)
    assert watch.open_now() == set()

    # Spark drops what is behind the watermark of the batch before.
    pipeline.given("source", rows(*range(-100, 100))).given("times", [at(150)], [at(151)], [at(40)])
    pipeline.run("numbers", "hours")

    assert watch.open_after(1) == {"expectation_rate", "quarantine_growing", "rows_late"}
    pipeline.given("source", rows(*range(1, 200))).given("times", [at(152)]).run("numbers", "hours")
    assert watch.open_after(130) == set()


@pytest.mark.long(
    guard=(
        "tests/unit/project/test_table_metrics.py"
        "::test_a_table_is_as_fresh_as_its_newest_row_and_an_alert_opens_when_it_is_too_old"
    )
)
@pytest.mark.fires("freshness")
def test_a_table_without_new_rows_is_not_fresh_until_it_gets_some(project):
    pipeline = project(ROWS).given("times", [at(0, datetime.now(UTC))])
    pipeline.run("newest")
    watch = AlertWatch(pipeline.settings)

    assert (watch.open_now(), watch.open_after(65)) == (set(), {"freshness"})
    pipeline.given("times", [at(66, datetime.now(UTC))]).run("newest")
    assert watch.open_after(5) == set()


STORED = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    dp.create_streaming_table("numbers")

    for name in ("numbers", "again"):
        @dp.append_flow(name=name, target="numbers")
        def append():
            return spark.readStream.option("maxFilesPerTrigger", 1).table("source")

    @dp.materialized_view
    def view():
        return spark.read.table("source")
    """
LIMITS = {"small_files": {"threshold": 6}, "unreferenced": {"threshold": 100}}


@pytest.mark.long(
    guard=(
        "tests/unit/alerts/test_alerts.py::test_a_fault_is_found_by_its_own_rule_alone",
        "tests/unit/doctor/test_storage_faults.py::test_the_command_for_unused_files_removes_them",
    )
)
@pytest.mark.fires("small_files", "unreferenced", "checkpoint_bad")
def test_faults_of_the_storage_open_alerts_until_it_is_maintained_and_repaired(project, monkeypatch):
    monkeypatch.setattr(maintenance, "COMPACT_ABOVE_FILES", 1)
    pipeline = project(STORED, alerts={"rules": LIMITS})
    for number in range(4):
        pipeline.given("source", rows(*range(9 * number, 9 * number + 9))).run()
    watch = AlertWatch(pipeline.settings)
    folder = pipeline.settings.layout.flows(pipeline.settings.naming, pipeline.settings.naming.canonical("numbers"))
    watch.open_now()
    shutil.rmtree(Path(folder) / "numbers" / "0")
    watch.later_s += 8 * 86_400

    watch.open_now()
    watch.later_s += 86_400
    assert watch.open_now() == {"small_files", "unreferenced", "checkpoint_bad"}
    pipeline.run(full_refresh=["numbers"])
    # Files of less than a day are never removed.
    for file in Path(pipeline.settings.storage, "tables").rglob("*"):
        os.utime(file, (0, file.stat().st_mtime - 2 * 86_400))
    pipeline.settings = replace(pipeline.settings, maintenance=MaintenancePolicy(VacuumScope.ALL, retain_s=0))
    again = pipeline.project
    actions = again.maintain(MaintenanceRequest(short_retention=True), again.plan)
    assert {action.state for action in actions} == {maintenance.ActionState.DONE}
    watch.later_s += 3 * 86_400
    assert watch.open_now() == set()
