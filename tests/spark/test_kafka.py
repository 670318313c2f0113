"""Topics of a real broker as sources of pipelines."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

STREAM = """
    @dp.table
    def read():
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", "{servers}")
            .option("subscribe", "{topic}")
            .option("startingOffsets", "earliest")
            {more}
            .load()
            .selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
        )
    """


def values(pipeline, name="read"):
    return sorted(row["value"] for row in pipeline.rows(name))


def test_each_record_is_in_the_table_once_when_updates_follow_each_other(kafka, project):
    topic = kafka.topic(partitions=2)
    pipeline = project(STREAM.format(servers=kafka.servers, topic=topic, more=""))
    kafka.produce(topic, "a", "b")
    first = pipeline.run()

    kafka.produce(topic, "c", partition=1)
    second = pipeline.run()

    assert (first.counts("read").rows_written, second.counts("read").rows_written) == (2, 1)
    assert values(pipeline) == ["a", "b", "c"]
