"""Continuous updates: streams and views that go on, alone when they fail, until the update is stopped."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from threading import Event

import pytest

from headrace.events.types import BatchDone, FlowStateChanged, UpdateCreated
from headrace.model.outcome import FlowState, UpdateState
from headrace.runtime import retry

pytestmark = pytest.mark.spark

FLOWS = """
    SPEED = {"pipelines.trigger.interval": "100 ms"}

    @dp.table(schema="id INT", spark_conf=SPEED)
    def landed():
        return spark.readStream.schema("id INT").json(f"{spark.conf.get('root')}/in")

    @dp.table(spark_conf=SPEED)
    @dp.expect_or_drop("positive", "id > 0")
    def judged():
        return spark.readStream.table("landed")

    @dp.materialized_view(spark_conf=SPEED)
    def counted():
        return spark.read.table("judged").groupBy().count()

    @dp.append_flow(target="landed", once=True)
    def history():
        return spark.createDataFrame([(100,)], "id INT")
    """


@pytest.fixture
def flowing(project):
    pipeline = project(FLOWS)
    pipeline.settings = replace(pipeline.settings, configuration={"root": str(pipeline.folder)})
    return pipeline


def test_rows_reach_the_last_view_while_the_update_runs(flowing):
    flowing.land("in/1.json", [{"id": 1}, {"id": -1}])

    with flowing.continuing() as update:
        update.wait_until(lambda: flowing.rows("counted") == [{"count": 2}])
        flowing.land("in/2.json", [{"id": 2}])
        update.wait_until(lambda: flowing.rows("counted") == [{"count": 3}])

    assert update.result.state is UpdateState.COMPLETED
    assert set(update.result.states.values()) == {FlowState.COMPLETED}
    assert flowing.plan().empty, flowing.plan().describe()


def when(event_is, do):
    """A listener that does something once."""
    left = [do]

    def heard(event):
        if left and event_is(event):
            left.pop()()

    return heard


def test_an_interrupt_cancels_a_continuous_update_that_waits_for_input(flowing):
    flowing.land("in/1.json", [{"id": 1}])
    interrupt = when(
        lambda event: isinstance(event, FlowStateChanged) and (event.flow, event.state) == ("counted", FlowState.IDLE),
        lambda: os.kill(os.getpid(), signal.SIGINT),
    )

    outcome = flowing.project.run(continuous=True, on_event=interrupt)

    assert outcome.state is UpdateState.CANCELED
    assert flowing.rows("counted") == [{"count": 2}]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_flow_cancels_the_update(flowing, number):
    flowing.land("in/1.json", [{"id": 1}])
    before = signal.getsignal(number)
    early = when(lambda event: isinstance(event, UpdateCreated), lambda: os.kill(os.getpid(), number))

    outcome = flowing.project.run(on_event=early)

    assert outcome.state is UpdateState.CANCELED
    assert {flow.state for flow in outcome.flows} == {FlowState.CANCELED}
    assert signal.getsignal(number) == before


def test_a_stream_stopped_with_unread_input_is_canceled(project):
    pipeline = project("""
        @dp.table(schema="id INT")
        def source():
            return spark.readStream.schema("id INT").json("unused")

        @dp.table
        @dp.expect_or_drop("positive", "id > 0")
        def slow():
            return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
        """)
    pipeline.given("source", *[[{"id": number}] for number in range(1, 16)])
    stop = Event()
    pipeline.plan()

    outcome = pipeline.project.run(stop=stop, on_event=when(lambda event: isinstance(event, BatchDone), stop.set))

    states = {flow.flow: flow.state for flow in outcome.flows}
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 100'))
    assert (outcome.state, states["slow"]) == (UpdateState.CANCELED, FlowState.CANCELED)
    assert len(pipeline.run().rows("slow")) == 15


def test_a_failed_flow_stops_alone_and_a_transient_failure_is_retried(project, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.05)
    pipeline = project("""
        SPEED = {"pipelines.trigger.interval": "100 ms"}
        CALLS = []

        @dp.table(schema="id INT")
        def source():
            return spark.readStream.schema("id INT").json("unused")

        @dp.table(spark_conf=SPEED)
        def steady():
            return spark.readStream.table("source")

        @dp.table(spark_conf=SPEED)
        @dp.expect_or_fail("small", "id < 10")
        def strict():
            return spark.readStream.table("source")

        @dp.table(spark_conf=SPEED)
        def shaky():
            CALLS.append(1)
            if len(CALLS) in (2, 3):
                raise ConnectionError("not reachable")
            return spark.readStream.table("source")
        """).given("source", [{"id": 1}, {"id": 10}])

    with pipeline.continuing() as update:
        update.wait_until(lambda: update.states.get("strict") is FlowState.FAILED)
        update.wait_until(lambda: len(pipeline.rows("shaky")) == 2)
        assert update.states["steady"] is FlowState.RUNNING

    assert update.result.state is UpdateState.FAILED
    assert update.result.error == "EXPECTATION.FAILED"
    assert update.result.flow("shaky").attempts == 3


def test_flows_with_a_one_time_trigger_process_the_available_input_once(project):
    pipeline = project("""
        @dp.table(schema="id INT")
        def source():
            return spark.readStream.schema("id INT").json("unused")

        @dp.table(spark_conf={"pipelines.trigger": "availableNow"})
        def everything():
            return spark.readStream.option("maxFilesPerTrigger", 1).table("source")

        @dp.table(table_properties={"pipelines.trigger": "once"})
        def one_batch():
            return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
        """).given("source", [{"id": 1}], [{"id": 2}])

    with pipeline.continuing() as update:
        update.wait_until(lambda: update.ended)
    batches = [row for row in pipeline.project.events().events() if row["origin"]["batch_id"] is not None]

    assert update.result.states["everything"] is FlowState.COMPLETED
    assert [len(pipeline.rows(name)) for name in ("everything", "one_batch")] == [2, 2]
    assert Counter(row["origin"]["flow_name"] for row in batches) == {"everything": 2, "one_batch": 1}
