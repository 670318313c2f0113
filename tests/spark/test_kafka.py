"""Topics of a real broker as sources of pipelines."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable
from tests.recorded_updates import heard

from headrace.errors import PipelineError, Problems
from headrace.events.levels import Level
from headrace.events.types import BatchDone, FlowLagMetrics, FlowStateChanged, Warned
from headrace.metrics import catalogue
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark


def reading(options, columns='"partition", "offset", "CAST(value AS STRING) AS value"', **more):
    """The text of a table that reads a topic, and the options that it does so with."""
    given = {"startingOffsets": "earliest", **options, **more}
    return f"""
    @dp.table(spark_conf={{"pipelines.trigger.interval": "200 ms"}})
    def read():
        return spark.readStream.format("kafka").options(**{given!r}).load().selectExpr({columns})
    """


def of(kafka, topic, **more):
    return {"kafka.bootstrap.servers": kafka.servers, "subscribe": topic, **more}


def over_tls(kafka, topic, password, trusted):
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required "
    return {
        "kafka.bootstrap.servers": kafka.secure_servers,
        "subscribe": topic,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{login} username="$ConnectionString" password="{password}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(trusted),
    }


def values(pipeline, name="read"):
    return sorted(row["value"] for row in pipeline.rows(name))


def test_each_record_is_written_once_across_updates_rate_limits_and_added_partitions(kafka, project):
    topic = kafka.topic(partitions=1)
    pipeline = project(reading(of(kafka, topic), maxOffsetsPerTrigger="2"))
    kafka.produce(topic, "a", "b", "c")
    first, events = heard(pipeline)
    # Few records are committed without Spark.
    writers = [commit["engineInfo"] for commit in DeltaTable(pipeline.folder / "storage/tables/default/read").history()]

    kafka.add_partitions(topic, 2)
    kafka.produce(topic, "d", partition=1)
    # The code is the same, however often Spark has read the topic.
    assert [change.change_class.value for change in pipeline.plan().changes] == ["data"]
    second = pipeline.run()

    assert [event.counts.rows_written for event in events if isinstance(event, BatchDone)] == [2, 1]
    assert (first.counts("read").rows_written, second.counts("read").rows_written) == (3, 1)
    assert values(pipeline) == ["a", "b", "c", "d"]
    assert writers == ["headrace"] * 3


def test_events_and_status_report_the_lag_of_each_partition(kafka, project):
    topic = kafka.topic(partitions=2)
    pipeline = project(
        reading(of(kafka, topic), maxOffsetsPerTrigger="2").replace(
            '"pipelines.trigger.interval": "200 ms"', '"pipelines.trigger": "once"'
        )
    )
    kafka.produce(topic, *range(6))
    kafka.produce(topic, *range(3), partition=1)

    _, events = heard(pipeline)
    (said,) = [event for event in events if isinstance(event, FlowLagMetrics)]
    (flow,) = pipeline.project.status().to_json()["flows"]

    behind = {partition["partition"]: partition["newest"] - partition["offset"] for partition in flow["lag"]}
    assert {partition.partition: partition.newest for partition in said.lag} == {0: 6, 1: 3}
    assert behind == {partition.partition: partition.behind for partition in said.lag}
    # Records that were not read wait since the report.
    waits_s = pipeline.project.metrics().of(catalogue.LAG_SECONDS)["read", topic]
    assert (any(behind.values()), waits_s < 600) == (waits_s > 0, True), behind


def test_records_are_selected_by_topic_pattern_partition_and_timestamp_and_in_sql(kafka, project):
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, "old", timestamp_ms=1_767_225_599_000)
    kafka.produce(topic, "new", "newer", timestamp_ms=1_767_225_600_000)
    kafka.produce(topic, "other", partition=1, timestamp_ms=1_767_225_599_000)
    chosen = {
        "by_pattern": {"subscribePattern": topic[:-3] + ".*", "startingOffsets": "earliest", "minPartitions": 4},
        "by_partition": {"assign": json.dumps({topic: [1]}), "startingOffsets": json.dumps({topic: {"1": -2}})},
        "by_time": {
            "subscribe": topic,
            "startingOffsetsByTimestamp": json.dumps({topic: {"0": "2026-01-01T00:00:00Z", "1": "2026-01-01"}}),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    }
    text = f"""
    def reading(name, options):
        @dp.table(name=name)
        def read():
            records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{kafka.servers}")
            return records.options(**options).load().select(
                F.col("value").cast("string"), F.spark_partition_id().alias("task")
            )

    for name, options in {chosen!r}.items():
        reading(name, options)
    """
    query = f"""
    CREATE STREAMING TABLE in_sql AS SELECT CAST(value AS STRING) AS value FROM STREAM read_kafka(
      bootstrapServers => '{kafka.servers}', subscribe => '{topic}', startingTimestamp => '2026-01-01T00:00:00Z',
      startingOffsetsByTimestampStrategy => 'latest'
    );
    CREATE MATERIALIZED VIEW once AS SELECT CAST(value AS STRING) AS value FROM read_kafka(
      bootstrapServers => '{kafka.servers}', subscribe => '{topic}', endingTimestamp => '2026-01-01'
    );
    """
    pipeline = project(text, {"transformations/topics.sql": query})

    result = pipeline.run()

    assert (result.state, result.error) == (UpdateState.COMPLETED, None)
    assert {name: values(pipeline, name) for name in (*chosen, "in_sql", "once")} == {
        "by_pattern": ["new", "newer", "old", "other"],
        "by_partition": ["other"],
        "by_time": ["new", "newer"],
        "in_sql": ["new", "newer"],
        "once": ["old", "other"],
    }
    # Four records of two partitions, each read by a task of its own.
    assert len({row["task"] for row in pipeline.rows("by_pattern")}) == 4


def test_a_continuous_flow_reads_added_partitions_and_counts_lost_offsets(kafka, project):
    grows, waits = kafka.topic(), kafka.topic()
    limits = {"minOffsetsPerTrigger": 4, "maxTriggerDelay": "1 hour", "failOnDataLoss": False}
    text = reading(of(kafka, grows)) + reading(of(kafka, waits), **limits).replace("def read(", "def waiting(")
    pipeline = project(text)
    kafka.produce(grows, "a")
    kafka.produce(waits, "a")

    with pipeline.continuing(timeout_s=120) as update:
        update.wait_until(lambda: (values(pipeline), values(pipeline, "waiting")) == (["a"], ["a"]))
        kafka.produce(waits, "b", "c", "d")
        kafka.forget(waits, below=3)
        kafka.produce(waits, "e")
        kafka.add_partitions(grows, 2)
        kafka.produce(grows, "added", partition=1)
        update.wait_until(lambda: "added" in values(pipeline) and "e" in values(pipeline, "waiting"))

    assert values(pipeline) == ["a", "added"]
    assert values(pipeline, "waiting") == ["a", "d", "e"]
    said = pipeline.sql("SELECT message FROM event_log WHERE message LIKE '%lost %'").rows
    assert [message for (message,) in said] == [
        f'flow "waiting": lost 2 offsets of {waits} partition 0 (read up to 1, the first available offset is 3)'
    ]


def test_an_unreachable_broker_does_not_block_other_flows(project):
    # Refused at once, and asked again until the client's time is over.
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.default.api.timeout.ms": 5000}
    other = """
    @dp.table
    def other():
        return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    """
    pipeline = project(reading(nobody) + other, configuration={"pipelines.maxFlowRetryAttempts": "0"})

    result, events = heard(pipeline)

    moved = [(event.flow, event.state) for event in events if isinstance(event, FlowStateChanged)]
    assert result.error == "KAFKA.UNREACHABLE"
    assert moved.index(("read", FlowState.STARTING)) < moved.index(("other", FlowState.STARTING))
    assert moved.index(("other", FlowState.RUNNING)) < moved.index(("read", FlowState.FAILED))


def test_closed_windows_are_emitted_after_the_broker_deletes_their_records(kafka, project):
    topic = kafka.topic()
    day_ms, hour_ms = 1_767_225_600_000, 3_600_000
    pipeline = project(f"""
    @dp.table(spark_conf={{"pipelines.trigger": "once"}})
    def hours():
        records = spark.readStream.format("kafka").options(**{of(kafka, topic)!r}, startingOffsets="earliest").load()
        hours = records.withWatermark("timestamp", "0 seconds").groupBy(F.window("timestamp", "1 hour"))
        return hours.count().select(F.hour("window.start").alias("hour"), "count")
    """)
    kafka.produce(topic, "a", "b", timestamp_ms=day_ms)
    kafka.produce(topic, "c", timestamp_ms=day_ms + 2 * hour_ms)
    pipeline.run()
    kafka.produce(topic, "d", timestamp_ms=day_ms + 9 * hour_ms)
    kafka.forget(topic, below=3)

    # What the first batch has closed would be written by computing it once more, and it has no records any longer.
    second = pipeline.run()
    # The second batch has its record still.
    third = pipeline.run()

    assert (second.error, third.error) == (None, None)
    assert sorted((row["hour"], row["count"]) for row in pipeline.rows("hours")) == [(0, 2), (2, 1)]


@pytest.mark.long(
    guard=(
        "tests/spark/test_kafka.py::test_a_continuous_flow_reads_added_partitions_and_counts_lost_offsets",
        "tests/spark/test_kafka.py::test_an_unreachable_broker_does_not_block_other_flows",
    )
)
def test_a_continuous_update_continues_after_a_broker_restart(kafka, project):
    topic = kafka.topic()
    pipeline = project(reading(of(kafka, topic)))
    kafka.produce(topic, "before")

    with pipeline.continuing(timeout_s=200) as update:
        update.wait_until(lambda: values(pipeline) == ["before"])
        kafka.stop()
        kafka.start()
        kafka.produce(topic, "after")
        update.wait_until(lambda: values(pipeline) == ["after", "before"])

    assert update.result.state is UpdateState.COMPLETED
    assert values(pipeline) == ["after", "before"]


@pytest.mark.fires("offsets_lost")
def test_lost_offsets_fail_the_flow_or_are_counted_if_fail_on_data_loss_is_false(kafka, project):
    topic = kafka.topic(partitions=2)
    pipeline = project(reading(of(kafka, topic)))
    kafka.produce(topic, "a", "b")
    pipeline.run()
    kafka.produce(topic, "c", "d", "e", "f")
    kafka.forget(topic, below=5)

    failed = pipeline.run()
    error = failed.outcome.error
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace("'startingOffsets'", "'failOnDataLoss': 'false', 'startingOffsets'"))
    passed, events = heard(pipeline)

    assert (error["code"], failed.flow("read").attempts) == ("KAFKA.DATA_LOSS", 1)
    assert f"3 offsets of {topic} partition 0 (read up to 2, the first available offset is 5)" in error["detail"]
    assert passed.state is UpdateState.COMPLETED
    (lost,) = [event for event in events if isinstance(event, Warned) and event.code == "KAFKA.OFFSETS_LOST"]
    assert f"lost 3 offsets of {topic} partition 0" in lost.message
    assert lost.level is Level.ERROR
    (alert,) = pipeline.project.alerts().check(pipeline.project.metrics())
    assert (alert.rule_id, dict(alert.labels)) == ("offsets_lost", {"flow": "read", "topic": topic})
    assert "3 since" in alert.message
    assert values(pipeline) == ["a", "b", "f"]


def test_a_flow_fails_when_its_topic_is_deleted_or_recreated(kafka, project):
    topic = kafka.topic()
    pipeline = project(reading(of(kafka, topic)))
    kafka.produce(topic, "a", "b", "c")
    pipeline.run()

    kafka.delete(topic)
    without = pipeline.run()
    kafka.create(topic)
    kafka.produce(topic, "new")
    another = pipeline.run()
    again = pipeline.run(reset_checkpoint=["read=earliest"])

    assert (without.error, another.error) == ("KAFKA.NO_TOPIC", "KAFKA.DATA_LOSS")
    assert "the topic was recreated" in another.outcome.error["detail"]
    assert again.state is UpdateState.COMPLETED
    assert values(pipeline) == ["a", "b", "c", "new"]


def test_the_error_for_a_missing_assigned_partition_lists_the_existing_partitions(kafka, project):
    topic = kafka.topic(partitions=2)
    assigned = {"kafka.bootstrap.servers": kafka.servers, "assign": json.dumps({topic: [1, 2, 7]})}
    pipeline = project(reading(assigned))

    failed = pipeline.run()
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace("[1, 2, 7]", "[1]"))
    kafka.produce(topic, "a", partition=0)
    kafka.produce(topic, "b", partition=1)
    sound = pipeline.run()

    error = failed.outcome.error
    assert (error["code"], failed.flow("read").attempts) == ("KAFKA.NO_PARTITION", 1)
    assert f'no partition 2 of "{topic}", 7 of "{topic}"' in error["message"]
    assert f'Existing partitions: 0 of "{topic}", 1 of "{topic}"' in error["detail"]
    assert sound.state is UpdateState.COMPLETED
    assert values(pipeline) == ["b"]


@pytest.mark.long(guard="tests/spark/test_kafka.py::test_a_flow_fails_when_its_topic_is_deleted_or_recreated")
def test_a_flow_that_tolerates_data_loss_warns_once_about_a_recreated_topic(kafka, project):
    topic = kafka.topic()
    pipeline = project(reading(of(kafka, topic), failOnDataLoss="false"))
    kafka.produce(topic, "a", "b", "c")
    pipeline.run()
    kafka.delete(topic)
    kafka.create(topic)
    kafka.produce(topic, "new")

    passed, events = heard(pipeline)

    (lost,) = [event for event in events if isinstance(event, Warned) and event.code == "KAFKA.OFFSETS_LOST"]
    assert passed.state is UpdateState.COMPLETED
    assert "the topic was recreated" in lost.message


def everything_below(folder):
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.suffix != ".py")


def test_a_topic_is_read_over_tls_and_its_credentials_are_not_stored_or_shown(kafka, project):
    from tests.servers.kafka import PASSWORD  # noqa: PLC0415 - the client's, as the fixture's

    topic = kafka.topic()
    kafka.produce(topic, "a")
    pipeline = project(reading(over_tls(kafka, topic, PASSWORD, kafka.trusted)))

    result, events = heard(pipeline)
    plan = pipeline.plan().describe() + pipeline.project.explain("read").describe()

    assert result.state is UpdateState.COMPLETED
    assert values(pipeline) == ["a"]
    said = repr(events) + plan + json.dumps(result.outcome.to_json())
    assert "c2VjcmV0LWtleQ" not in said
    assert b"c2VjcmV0LWtleQ" not in everything_below(pipeline.folder)


@pytest.mark.parametrize(
    ("password", "trusted", "code"),
    [("wrong-p4ssword", "trusted", "KAFKA.CREDENTIALS"), (None, "untrusted", "KAFKA.CERTIFICATE")],
)
def test_a_wrong_password_or_untrusted_certificate_fails_the_flow_without_retries(
    kafka, project, password, trusted, code
):
    from tests.servers.kafka import PASSWORD  # noqa: PLC0415 - the same

    secret = password or PASSWORD
    pipeline = project(reading(over_tls(kafka, kafka.topic(), secret, getattr(kafka, trusted))))

    result, events = heard(pipeline)

    assert (result.error, result.flow("read").attempts) == (code, 1)
    assert result.states["read"] is FlowState.FAILED
    assert secret not in repr(events) + json.dumps(result.outcome.to_json())
    assert secret.encode() not in everything_below(pipeline.folder)


def test_unknown_options_are_rejected_by_name_before_the_broker_is_contacted(project):
    pipeline = project(reading({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "maxOffsetPerTrigger": 5}))

    with pytest.raises(Problems) as refused:
        pipeline.plan()

    (problem,) = refused.value
    assert isinstance(problem, PipelineError)
    assert (problem.code, problem.params["near"]) == ("SOURCE.OPTION_UNKNOWN", "maxOffsetsPerTrigger")
    assert problem.location is not None


ID = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}'


@pytest.mark.parametrize(
    ("parsed", "good", "bad"),
    [
        ("""from_json(CAST(value AS STRING), "id INT", map("mode", "FAILFAST"))""", b'{"id": 7}', b'{"id": '),
        pytest.param(
            *(f"from_avro(substring(value, 6), '{ID}')", b"head:\x0e", b"head:"),
            marks=pytest.mark.long(guard="its other cases"),
        ),
    ],
    ids=["json", "avro"],
)
def test_a_record_that_cannot_be_parsed_becomes_a_dead_letter_with_its_offset(kafka, project, parsed, good, bad):
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, good, good)
    kafka.produce(topic, good, bad, good, partition=1)
    text = reading(of(kafka, topic), columns=f"'partition', 'offset', {parsed + '.id AS id'!r}")
    text = text.replace("spark_conf={", 'spark_conf={"headrace.failing_rows": "quarantine", ')
    pipeline = project(text)

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    rows = sorted((row["partition"], row["offset"], row["id"]) for row in pipeline.rows("read"))
    assert rows == [(0, 0, 7), (0, 1, 7), (1, 0, 7), (1, 2, 7)]
    shown = pipeline.project.quarantine_show("read")
    (found,) = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
    assert {key: found["source"][key] for key in ("topic", "partition", "offset")} == {
        "topic": topic,
        "partition": 1,
        "offset": 1,
    }
