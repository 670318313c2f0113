"""``format("kafka")`` and ``format("eventhubs")`` of the session's readers: Spark's own source, its options checked."""

from __future__ import annotations

import warnings
from functools import partial, wraps
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from headrace.errors import PipelineError
from headrace.sources.event_hubs_options import FORMAT as EVENT_HUBS
from headrace.sources.event_hubs_options import event_hubs_options, without_effect
from headrace.sources.kafka_options import kafka_options
from headrace.spark.auto_loader import GIVEN, NOTED_FORMAT
from headrace.spark.topics import partitions_of_topic

FORMAT = "kafka"
_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
# The last value of a property counts, as in the vendor's map.
_PROPERTIES = """
    map_from_entries(transform(
        filter(coalesce(headers, array()), (one, at) ->
            NOT exists(slice(headers, at + 2, size(headers)), other -> other.key = one.key)),
        one -> struct(one.key, CAST(one.value AS STRING))
    ))
"""


def reading_topics(load: Any) -> Any:
    """Of a reader's ``load``: options of topics are checked, and hubs are topics."""

    @wraps(load)
    def loading(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002 - Spark's name
        wanted = (format or vars(self).get(NOTED_FORMAT, "")).casefold()
        if wanted not in (FORMAT, EVENT_HUBS):
            return load(self, path, format, schema, **options)
        session: SparkSession = self._spark
        _check_connector(session, wanted)
        given = {**vars(self).get(GIVEN, {}), **options}
        if schema is not None or path is not None:
            raise PipelineError("KAFKA.NO_PATH", format=wanted)
        streaming = isinstance(self, DataStreamReader)
        time_zone = str(session.conf.get("spark.sql.session.timeZone", "UTC"))
        if wanted == FORMAT:
            taken = kafka_options(given, streaming=streaming, time_zone=time_zone)
            return load(self.options(**taken), None, format, None)
        counted = partial(partitions_of_topic, session)
        taken = event_hubs_options(given, streaming=streaming, time_zone=time_zone, partitions_of=counted)
        for name, why in without_effect(given):
            warnings.warn(f'option "{name}" has no effect: {why}', stacklevel=2)
        # What a reader was given stays in its plan, and a connection string is a secret.
        fresh = type(self)(session).format(FORMAT).options(**taken)
        return _events(load(fresh))

    return loading


def _check_connector(session: SparkSession, wanted: str) -> None:
    jvm: Any = session._jvm  # noqa: SLF001 - has no public form
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_PROVIDER)
    except Py4JJavaError:
        raise PipelineError("CONNECTOR.NOT_NAMED", format=wanted, connector=FORMAT) from None


def _events(records: DataFrame) -> DataFrame:
    """Records of a topic with the columns of the vendor's connector.

    Source: the connector's ``EventHubsSourceProvider``; the service's Kafka surface says nothing of the publisher.
    """
    return records.select(
        F.col("value").alias("body"),
        F.col("partition").cast("string").alias("partition"),
        F.col("offset").cast("string").alias("offset"),
        F.col("offset").alias("sequenceNumber"),
        F.col("timestamp").alias("enqueuedTime"),
        F.lit(None).cast("string").alias("publisher"),
        F.col("key").cast("string").alias("partitionKey"),
        F.expr(_PROPERTIES).alias("properties"),
        F.expr("CAST(map() AS MAP<STRING, STRING>)").alias("systemProperties"),
    )
