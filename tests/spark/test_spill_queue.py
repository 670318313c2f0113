"""Sinks that are down for a while: their batches wait, and reach them in their order, each row as often as promised."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.crashed_updates import die_in_turn, in_turn_or_alone
from tests.recorded_updates import heard
from tests.servers.receiver import running_receiver

from headrace.events.types import BatchDone, Warned
from headrace.metrics import catalogue
from headrace.model.outcome import FlowState, UpdateState
from headrace.storage.spill_queue import spilled_batches
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

ALONE = pytest.mark.long(guard="its other cases")

FIRST, SECOND, THIRD = ([{"id": n, "name": f"n{n}"} for n in range(start, start + 4)] for start in (10, 14, 18))
TEXT = """
    @dp.table(schema="id INT, name STRING")
    def source():
        return spark.readStream.schema("id INT, name STRING").json("unused")

    dp.create_sink("out", {kind!r}, {options!r})

    @dp.append_flow(target="out")
    def deliver():
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("source")
        return rows{query}
    """


def text(kind, options, query=""):
    return TEXT.format(kind=kind, options=options, query=query)


def http(server, **more):
    options = {"url": server.url, "rowsPerRequest": 2, "concurrency": 1, "maxAttempts": 1, "fallback": "storage"}
    return text("http", {**options, **more})


def ids(rows):
    return [int(row["id"]) for row in rows]


def warnings(events):
    return [event.code for event in events if isinstance(event, Warned)]


def down(_request, _number):
    return 503


@pytest.fixture
def server():
    with running_receiver() as found:
        yield found


def test_batches_are_spilled_while_a_server_is_down_and_later_delivered_in_order(project, server):
    pipeline = project(http(server)).given("source", FIRST, SECOND)
    server.answer = down

    unavailable, events = heard(pipeline)
    plan = pipeline.plan().describe()
    metrics = pipeline.project.metrics()
    (alert,) = pipeline.project.alerts().check(metrics)
    server.answer = lambda _request, _number: 200
    back, later = heard(pipeline.given("source", THIRD))
    idle = pipeline.run()

    assert (unavailable.state, unavailable.flow("deliver").counts.rows_written) == (UpdateState.COMPLETED, 8)
    assert warnings(events) == ["SINK.DOWN"]
    assert "2 batches in the spill queue" in plan
    assert (alert.rule_id, alert.message[:9]) == ("sink_waiting", "2 batches")
    assert metrics.of(catalogue.SINK_WAITING_BYTES)["deliver", "out"] > 1000
    assert pipeline.project.metrics().of(catalogue.SINK_WAITING_BATCHES) == {("deliver", "out"): 0}
    assert ids(server.taken) == [*range(10, 22)]
    assert (back.flow("deliver").counts.rows_written, warnings(later)) == (4, ["SINK.CAUGHT_UP"])
    assert idle.states["deliver"] is FlowState.UP_TO_DATE


def test_spilled_batches_are_delivered_without_new_input(project, server):
    pipeline = project(http(server)).given("source", FIRST)
    server.answer = down
    pipeline.run()

    server.answer = lambda _request, _number: 200
    result, events = heard(pipeline)

    assert ids(server.taken) == [10, 11, 12, 13]
    assert (result.state, warnings(events)) == (UpdateState.COMPLETED, ["SINK.CAUGHT_UP"])
    assert [event for event in events if isinstance(event, BatchDone) and event.flow == "deliver"] == []


def test_a_server_that_is_down_is_not_contacted_for_each_batch(project, server, monkeypatch):
    monkeypatch.setattr("headrace.spark.sinks.spill_queue.PAUSE_S", math.inf)
    pipeline = project(http(server)).given("source", FIRST, SECOND, THIRD)
    server.answer = down

    pipeline.run()

    assert len(server.requests) == 1


def test_a_partially_sent_batch_is_sent_again_with_the_same_keys(project, server):
    pipeline = project(http(server)).given("source", FIRST)
    server.answer = lambda _request, number: 200 if number == 1 else 503

    pipeline.run()
    server.answer = lambda _request, _number: 200
    pipeline.run()

    keys = [request.key for request in server.requests]
    assert keys == [keys[0], keys[1], keys[0], keys[1]]
    assert ids(server.taken) == [10, 11, 12, 13]


@pytest.mark.long(guard="tests/spark/test_spill_queue.py::test_each_batch_is_spilled_once_when_an_update_crashes")
def test_a_batch_spilled_before_a_crash_is_delivered_once_by_the_next_update(project, server):
    pipeline = project(http(server)).given("source", FIRST, SECOND)
    server.answer = down
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.SPILLED).run()

    server.answer = lambda _request, _number: 200
    pipeline.restart().run()

    answered = [row for request in server.requests[1:] for row in request.rows]
    assert ids(answered) == [*range(10, 18)]


@pytest.mark.parametrize(
    "deaths",
    in_turn_or_alone(
        ALONE,
        *(Failpoint.SPILLED, Failpoint.DELIVERY_RECORDED),
        alone=tuple((point, 1) for point in (Failpoint.BEFORE_WRITE, Failpoint.SPILLED, Failpoint.DELIVERY_RECORDED)),
    ),
)
def test_each_batch_is_spilled_once_when_an_update_crashes(project, server, deaths):
    pipeline = project(http(server)).given("source", FIRST, SECOND)
    server.answer = down

    die_in_turn(pipeline.run, pipeline, *deaths)
    again = pipeline.run()
    waiting = Path(pipeline.settings.storage) / "checkpoints" / "default" / "out" / "deliver" / "waiting" / "sink"
    batches = [(one.position, one.number) for one in spilled_batches(waiting)]
    server.answer = lambda _request, _number: 200
    pipeline.run()

    assert (again.state, batches) == (UpdateState.COMPLETED, [(1, 0), (2, 1)])
    assert sorted(ids(server.taken)) == [*range(10, 18)]
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 8


@pytest.mark.parametrize(("status", "code"), [(401, "SINK.HTTP_REFUSED"), (500, "SINK.HTTP_DOWN")])
def test_http_errors_that_may_recur_fail_the_flow_instead_of_spilling_the_batch(project, server, status, code):
    pipeline = project(http(server), max_flow_retries=0).given("source", FIRST)
    server.answer = lambda _request, _number: status

    result = pipeline.run()

    assert result.states["deliver"] is FlowState.FAILED
    assert result.outcome.error["code"] == code


@pytest.mark.long(guard="tests/spark/test_spill_queue.py::test_a_partially_sent_batch_is_sent_again_with_the_same_keys")
def test_spilled_requests_are_built_with_the_spark_settings_of_the_flow(project, server):
    query = '.withColumn("at", F.timestamp_seconds("id"))'
    options = {"url": server.url, "rowsPerRequest": 2, "concurrency": 1, "maxAttempts": 1, "fallback": "storage"}
    paris = '@dp.append_flow(target="out", spark_conf={"spark.sql.session.timeZone": "Europe/Paris"})'
    code = text("http", options, query).replace('@dp.append_flow(target="out")', paris)
    pipeline = project(code).given("source", FIRST)
    server.answer = lambda _request, number: 200 if number == 1 else 503

    pipeline.run()
    server.answer = lambda _request, _number: 200
    pipeline.run()

    assert server.requests[2].key == server.requests[0].key
    assert "+01:00" in server.taken[0]["at"]


@pytest.mark.long(
    guard=(
        "tests/spark/test_spill_queue.py::test_batches_are_spilled_while_a_server_is_down_and_later_delivered_in_order",
        "tests/spark/test_spill_queue.py::test_spilled_batches_are_delivered_without_new_input",
    )
)
def test_spilled_windows_are_delivered_once(project, server):
    query = (
        '.withColumn("at", F.timestamp_seconds(F.col("id") * 10)).withWatermark("at", "5 seconds")'
        '.groupBy(F.window("at", "20 seconds")).agg(F.min("id").alias("id"))'
    )
    options = {"url": server.url, "concurrency": 1, "maxAttempts": 1, "fallback": "storage"}
    pipeline = project(text("http", options, query)).given("source", FIRST, SECOND, THIRD)
    server.answer = down

    pipeline.run()
    server.answer = lambda _request, _number: 200
    pipeline.run()

    assert ids(server.taken) == [10, 12, 14, 16, 18]


def test_spilled_rows_that_a_sink_rejects_become_dead_letters(project, server):
    set_aside = '@dp.append_flow(target="out", spark_conf={"headrace.failing_rows": "quarantine"})'
    pipeline = project(http(server).replace('@dp.append_flow(target="out")', set_aside)).given("source", FIRST, SECOND)
    server.answer = down
    pipeline.run()

    server.answer = lambda request, _number: 422 if any(row["id"] == 12 for row in request.rows) else 200
    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED
    assert ids(server.taken) == [10, 11, 13, 14, 15, 16, 17]
    assert pipeline.project.quarantine_list() == (("out", 1, {"sink.refused": 1}),)


@pytest.mark.long(
    guard=(
        "tests/spark/test_spill_queue.py::test_batches_are_spilled_while_a_server_is_down_and_later_delivered_in_order",
        "tests/spark/test_spill_queue.py::test_spilled_batches_are_delivered_before_a_full_refresh_delivers_all_rows",
    )
)
def test_spilled_batches_are_delivered_first_after_the_fallback_is_removed(project, server):
    pipeline = project(http(server), max_flow_retries=0).given("source", FIRST)
    server.answer = down
    pipeline.run()

    code = pipeline.folder / "transformations" / "project.py"
    code.write_text(code.read_text().replace("'fallback': 'storage'", "'fallback': 'none'"))
    failed = pipeline.restart().given("source", SECOND).run()
    server.answer = lambda _request, _number: 200
    pipeline.run()

    assert (failed.states["deliver"], failed.outcome.error["code"]) == (FlowState.FAILED, "SINK.HTTP_DOWN")
    assert ids(server.taken) == [*range(10, 18)]


def test_spilled_batches_are_delivered_before_a_full_refresh_delivers_all_rows(project, server):
    pipeline = project(http(server)).given("source", FIRST)
    server.answer = down
    pipeline.run()

    server.answer = lambda _request, _number: 200
    pipeline.run(full_refresh=["out"])

    assert ids(server.taken) == [10, 11, 12, 13] * 2


def test_a_sink_that_is_down_does_not_delay_the_other_sinks_of_its_flow(project, server, tmp_path):
    other = f'\n    dp.create_sink("lake", "json", {{"path": {str(tmp_path / "lake")!r}}})\n'
    both = http(server).replace('target="out"', 'target=["out", "lake"]')
    pipeline = project(both.replace("\n    @dp.append_flow", f"{other}\n    @dp.append_flow")).given("source", FIRST)
    server.answer = down

    unavailable = pipeline.run()
    server.answer = lambda _request, _number: 200
    pipeline.run()

    lines = [line for file in (tmp_path / "lake").glob("*.json") for line in file.read_text().splitlines()]
    assert (unavailable.state, len(lines)) == (UpdateState.COMPLETED, 4)
    assert ids(server.taken) == [10, 11, 12, 13]


@pytest.mark.parametrize(
    "deaths",
    in_turn_or_alone(
        ALONE,
        *(Failpoint.WRITTEN, Failpoint.SPILL_DELIVERED),
        alone=(Failpoint.STAGED, Failpoint.WRITTEN, Failpoint.SPILL_DELIVERED),
    ),
)
def test_each_row_is_written_once_to_a_database_that_was_down(project, postgres, out_orders, deaths):
    options = postgres.options(dbtable="out_orders", fallback="storage")
    pipeline = project(text("jdbc", options, ".repartition(2)")).given("source", FIRST)
    pipeline.run()

    with postgres.unavailable():
        unavailable, events = heard(pipeline.given("source", SECOND, THIRD))
    die_in_turn(pipeline.run, pipeline, *deaths)
    back = pipeline.run()

    assert (unavailable.state, warnings(events)) == (UpdateState.COMPLETED, ["SINK.DOWN"])
    assert back.state is UpdateState.COMPLETED
    assert sorted(ids(out_orders())) == [*range(10, 22)]
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 12


@pytest.mark.long(
    guard=(
        "tests/spark/test_spill_queue.py::test_http_errors_that_may_recur_fail_the_flow_instead_of_spilling_the_batch",
        "tests/spark/test_spill_queue.py::test_a_rejected_database_login_fails_the_flow",
        "tests/spark/test_spill_queue.py::test_each_row_is_written_once_to_a_database_that_was_down",
    )
)
def test_a_flow_without_fallback_fails_while_its_database_is_down_and_recovers(project, postgres, out_orders):
    pipeline = project(text("jdbc", postgres.options(dbtable="out_orders")), max_flow_retries=0).given("source", FIRST)

    with postgres.unavailable():
        unavailable = pipeline.run()
    back = pipeline.run()

    assert (unavailable.states["deliver"], unavailable.outcome.error["code"]) == (FlowState.FAILED, "JDBC.UNREACHABLE")
    assert (back.state, sorted(ids(out_orders()))) == (UpdateState.COMPLETED, [10, 11, 12, 13])


def test_a_rejected_database_login_fails_the_flow(project, postgres, out_orders):
    options = {**postgres.options(dbtable="out_orders", fallback="storage"), "user": "nobody"}
    pipeline = project(text("jdbc", options), max_flow_retries=0).given("source", FIRST)

    result = pipeline.run()

    assert (result.states["deliver"], result.outcome.error["code"]) == (FlowState.FAILED, "JDBC.UNREACHABLE")


@pytest.mark.long(guard="tests/spark/test_spill_queue.py::test_each_row_is_written_once_to_a_database_that_was_down")
def test_records_are_spilled_until_a_stopped_broker_is_started_again(project, kafka):
    topic = kafka.topic()
    query = '.selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value")'
    options = {
        "kafka.bootstrap.servers": kafka.servers,
        "topic": topic,
        "kafka.max.block.ms": "10000",
        "kafka.delivery.timeout.ms": "5000",
        "kafka.request.timeout.ms": "2000",
        "fallback": "storage",
    }
    pipeline = project(text("kafka", options, query), connectors=["kafka"]).given("source", FIRST)
    pipeline.run()

    kafka.stop()
    try:
        unavailable, events = heard(pipeline.given("source", SECOND))
    finally:
        kafka.start()
    back = pipeline.run()

    assert (unavailable.state, warnings(events), back.state) == (
        UpdateState.COMPLETED,
        ["SINK.DOWN"],
        UpdateState.COMPLETED,
    )
    assert sorted(int(record.key()) for record in kafka.records(topic)) == [*range(10, 18)]
