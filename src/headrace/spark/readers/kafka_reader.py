"""``format("kafka")`` and ``format("eventhubs")`` of the session's readers: Spark's own source, its options checked."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial, wraps
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from headrace.errors import PipelineError
from headrace.sources import event_hubs_options, kafka_options
from headrace.spark.readers.auto_loader import GIVEN, NOTED_FORMAT, NOTED_SCHEMA
from headrace.spark.readers.kafka_topics import partitions_of_topic
from headrace.spark.session.query_context import query_context

KAFKA, EVENT_HUBS = kafka_options.FORMAT.name, event_hubs_options.FORMAT.name
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
        noted = vars(self)
        wanted = (format or noted.get(NOTED_FORMAT, "")).casefold()
        if wanted not in (KAFKA, EVENT_HUBS):
            return load(self, path, format, schema, **options)
        _check_connector(self._spark, wanted)
        if schema is not None or noted.get(NOTED_SCHEMA) is not None:
            raise PipelineError("SOURCE.SCHEMA_GIVEN", format=wanted)
        given = {**noted.get(GIVEN, {}), **options, **({} if path is None else {"path": path})}
        taken = _options(self, wanted, given)
        if not (isinstance(self, DataStreamReader) and query_context().of_pipeline):
            # Of the streams of a pipeline, each update says it.
            for name, why in taken.without_effect:
                warnings.warn(f'option "{name}" has no effect: {why}', stacklevel=2)
        # What a reader was given stays in its plan, and a connection string is a secret.
        reader = self if wanted == KAFKA else type(self)(self._spark)
        records = load(reader.format(KAFKA).options(**taken.described(wanted)))
        return records if wanted == KAFKA else _events(records)

    return loading


def _options(reader: Any, wanted: str, given: Mapping[str, Any]) -> kafka_options.TopicOptions:
    session: SparkSession = reader._spark  # noqa: SLF001 - has no public form
    streaming = isinstance(reader, DataStreamReader)
    time_zone = str(session.conf.get("spark.sql.session.timeZone", "UTC"))
    if wanted == KAFKA:
        return kafka_options.kafka_options(given, streaming=streaming, time_zone=time_zone)
    counted = partial(partitions_of_topic, session, again=not query_context().runs)
    return event_hubs_options.event_hubs_options(given, streaming=streaming, time_zone=time_zone, partitions_of=counted)


def _check_connector(session: SparkSession, wanted: str) -> None:
    jvm: Any = session._jvm  # noqa: SLF001 - has no public form
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_PROVIDER)
    except Py4JJavaError:
        raise PipelineError("CONNECTOR.NOT_NAMED", format=wanted, connector=KAFKA) from None


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
