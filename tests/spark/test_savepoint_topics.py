"""A restore asks brokers, before it writes anything, whether they still have the records that flows read again."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.model.outcome import UpdateState
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import RestoreRequest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long(
        guard=(
            "tests/unit/sources/test_kafka_options.py::test_losses_extend_from_the_read_position_to_the_first_available_offset",
            "tests/unit/project/test_savepoint_topics.py::test_topics_of_flows_that_go_back_are_asked_about_and_a_dry_run_names_these_flows",
            "tests/spark/test_savepoints.py::test_an_interrupted_restore_is_finished_by_the_next_update",
        )
    ),
]
CODE = """
    @dp.table
    def records():
        topic = spark.readStream.format("kafka").options(**{options!r})
        return topic.load().select(F.col("value").cast("string"))
"""
UNKNOWN = 'whether the broker still has all records for flow "records" is unknown: '


def code_of(kafka, topic):
    options = {
        "kafka.bootstrap.servers": kafka.servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
    return CODE.replace("{options!r}", repr(options))


def test_records_that_a_broker_has_deleted_are_named_before_anything_is_written(project, kafka):
    topic = kafka.topic()
    pipeline = project(code_of(kafka, topic))
    savepoints = pipeline.project.savepoints
    for values in (("a", "b"), ("c", "d", "e")):
        kafka.produce(topic, *values)
        assert pipeline.run().state is UpdateState.COMPLETED
        if not savepoints.all():
            savepoints.create(SavepointRequest("calm"))
    rows = pipeline.rows("records")
    kafka.forget(topic, below=4)

    plan = savepoints.plan(RestoreRequest("calm"))
    with pytest.raises(PipelineError) as refused:
        savepoints.restore(RestoreRequest("calm"))

    # The dry run asks nobody, and says so.
    assert (plan.losses, plan.notes) == ((), (f"{UNKNOWN}a restore asks it before it writes anything",))
    assert refused.value.code == "SAVEPOINT.LOSES"
    lost = f"2 offsets of {topic} partition 0 (read up to 2, the first available offset is 4)"
    assert f'low "records" cannot read {lost} again' in refused.value.detail
    assert pipeline.rows("records") == rows
    assert [one.name for one in savepoints.all()] == ["calm"]

    done = savepoints.restore(RestoreRequest("calm", accept_data_loss=True))
    assert lost in done.plan.losses[0]
    assert pipeline.run().state is UpdateState.COMPLETED
    assert [row["value"] for row in pipeline.rows("records")] == ["a", "b", "e"]


def test_a_broker_that_does_not_answer_and_code_that_does_not_load_are_notes(project, kafka):
    topic = kafka.topic()
    pipeline = project(code_of(kafka, topic))
    savepoints = pipeline.project.savepoints
    kafka.produce(topic, "a")
    pipeline.run()
    savepoints.create(SavepointRequest("calm"))
    kafka.produce(topic, "b")
    pipeline.run()
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text(encoding="utf-8")

    away = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
    file.write_text(text.replace(kafka.servers, "127.0.0.1:1").replace("'subscribe'", f"**{away!r}, 'subscribe'"))
    silent = savepoints.restore(RestoreRequest("calm"))
    file.write_text("import no_such_module\n", encoding="utf-8")
    pipeline.project.savepoints.restore(RestoreRequest(silent.before.id))
    broken = pipeline.project.savepoints.restore(RestoreRequest("calm"))
    file.write_text(text, encoding="utf-8")

    assert [note.startswith(UNKNOWN) for note in (*silent.plan.notes, *broken.plan.notes)] == [True, True]
    assert "the code has a problem" in broken.plan.notes[0]
    assert pipeline.run().state is UpdateState.COMPLETED
    assert [row["value"] for row in pipeline.rows("records")] == ["a", "b"]
