"""Real-time mode: records of one topic are in another one before the batch that they belong to ends."""

from __future__ import annotations

import pytest

from headrace.model.outcome import FlowState, UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

PROJECT = """
    dp.create_sink("out", "kafka", {{"kafka.bootstrap.servers": "{servers}", "topic": "{taken}"}})

    @dp.update_flow(
        target="out", spark_conf={{"pipelines.trigger": "RealTime", "pipelines.trigger.interval": "{lasts}"}}
    )
    def passed_on():
        records = {source}
        return records.selectExpr(*{columns!r})
    """
TOPIC = """(
            spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{servers}")
            .option("subscribe", "{given}").option("startingOffsets", "earliest").load()
        )"""


@pytest.fixture
def topics(kafka):
    return kafka.topic(), kafka.topic()


@pytest.fixture
def passing_on(project, kafka, topics):
    def make(lasts, source=TOPIC, columns=("upper(CAST(value AS STRING)) AS value",)):
        given, taken = topics
        source = source.format(servers=kafka.servers, given=given)
        text = PROJECT.format(servers=kafka.servers, taken=taken, lasts=lasts, source=source, columns=columns)
        return project(text, connectors=["kafka"])

    return make


def rows_counted(pipeline):
    counts = pipeline.project.events().flow_totals().get("passed_on")
    return 0 if counts is None else counts.rows_written


def test_records_are_delivered_while_their_batch_runs_and_none_is_lost_on_stop(kafka, topics, passing_on):
    given, taken = topics
    kafka.produce(given, "a")
    # Whatever the letters of the columns' names.
    pipeline = passing_on("5 minutes", columns=("'k' AS Key", "upper(CAST(value AS STRING)) AS Value"))

    def values():
        return [record.value().decode() for record in kafka.records(taken)]

    with pipeline.continuing(timeout_s=120) as update:
        update.wait_until(lambda: values() == ["A"])
        kafka.produce(given, "b")
        update.wait_until(lambda: values() == ["A", "B"])
        assert rows_counted(pipeline) == 0
    kafka.produce(given, "c")
    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED
    # What was sent before its batch was noted comes again.
    assert sorted(values()) == ["A", "A", "B", "B", "C"]
    assert {record.key() for record in kafka.records(taken)} == {b"k"}


def test_records_of_a_committed_batch_are_not_delivered_again(kafka, topics, passing_on):
    given, taken = topics
    kafka.produce(given, "a", "b")
    pipeline = passing_on("5 seconds")

    with pipeline.continuing(timeout_s=120) as update:
        update.wait_until(lambda: rows_counted(pipeline) == 2)
    result = pipeline.run()

    assert result.flow("passed_on").counts.rows_written == 0
    assert len(kafka.records(taken)) == 2


@pytest.mark.long(
    guard="tests/spark/test_real_time.py::test_records_are_delivered_while_their_batch_runs_and_none_is_lost_on_stop"
)
def test_no_record_is_lost_when_an_uncommitted_batch_precedes_real_time_mode(kafka, topics, passing_on):
    given, taken = topics
    kafka.produce(given, "a")
    pipeline = passing_on("5 minutes")
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.COUNTED).run()
    pipeline.restart()

    def values():
        return {record.value().decode() for record in kafka.records(taken)}

    with pipeline.continuing(timeout_s=120) as update:
        kafka.produce(given, "b")
        update.wait_until(lambda: values() == {"A", "B"})
    kafka.produce(given, "c")
    pipeline.run()

    assert values() == {"A", "B", "C"}


@pytest.mark.parametrize(
    ("partitions", "option", "why"),
    [(1, ("maxOffsetsPerTrigger", "5"), 'option "maxOffsetsPerTrigger"'), (3, None, "have 3 partitions")],
)
def test_real_time_mode_rejects_rate_limits_and_topics_with_too_many_partitions(
    kafka, passing_on, topics, partitions, option, why
):
    if partitions > 1:
        kafka.add_partitions(topics[0], partitions)
    text = TOPIC if option is None else TOPIC.replace(".load()", f'.option("{option[0]}", "{option[1]}").load()')

    with passing_on("5 minutes", text).continuing(timeout_s=120) as update:
        update.wait_until(lambda: update.states.get("passed_on") is FlowState.FAILED)

    assert update.result.outcome.error["code"] == "TRIGGER.REAL_TIME"
    assert why in update.result.outcome.error["message"]


def test_real_time_mode_rejects_an_unsupported_source(passing_on):
    pipeline = passing_on("5 seconds", 'spark.readStream.format("rate").load()')

    with pipeline.continuing(timeout_s=120) as update:
        update.wait_until(lambda: update.states.get("passed_on") is FlowState.FAILED)

    assert "real-time mode" in update.result.outcome.error["detail"]
