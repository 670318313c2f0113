"""``format("kafka")`` and ``format("eventhubs")`` of the session's readers: Spark's source, with checked options."""

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
from headrace.spark.readers.auto_loader import GIVEN_FORMAT, GIVEN_OPTIONS, GIVEN_SCHEMA
from headrace.spark.readers.kafka_topics import cached_partition_count
from headrace.spark.session.query_context import query_context

KAFKA, EVENT_HUBS = kafka_options.FORMAT.name, event_hubs_options.FORMAT.name
_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
# If a property repeats, its last value counts, as in the vendor's map.
_PROPERTIES = """
    map_from_entries(transform(
        filter(coalesce(headers, array()), (one, at) ->
            NOT exists(slice(headers, at + 2, size(headers)), other -> other.key = one.key)),
        one -> struct(one.key, CAST(one.value AS STRING))
    ))
"""


def wrap_topics_load(load: Any) -> Any:
    """Wrap a reader's ``load``: checks the options of topics, and reads hubs as topics."""

    @wraps(load)
    def wrapper(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002 - Spark's name
        attributes = vars(self)
        format_name = (format or attributes.get(GIVEN_FORMAT, "")).casefold()
        if format_name not in (KAFKA, EVENT_HUBS):
            return load(self, path, format, schema, **options)
        _check_connector(self._spark, format_name)
        if schema is not None or attributes.get(GIVEN_SCHEMA) is not None:
            raise PipelineError("SOURCE.SCHEMA_GIVEN", format=format_name)
        given = {**attributes.get(GIVEN_OPTIONS, {}), **options, **({} if path is None else {"path": path})}
        topic_options = _options(self, format_name, given)
        if not (isinstance(self, DataStreamReader) and query_context().of_pipeline):
            # For the streams of a pipeline, each update warns.
            for name, why in topic_options.without_effect:
                warnings.warn(f'option "{name}" has no effect: {why}', stacklevel=2)
        # A new reader for hubs: options stay in the plan, and a connection string is secret.
        reader = self if format_name == KAFKA else type(self)(self._spark)
        records = load(reader.format(KAFKA).options(**topic_options.for_reader(format_name)))
        return records if format_name == KAFKA else _events(records)

    return wrapper


def _options(reader: Any, format_name: str, given: Mapping[str, Any]) -> kafka_options.TopicOptions:
    session: SparkSession = reader._spark  # noqa: SLF001 - has no public form
    streaming = isinstance(reader, DataStreamReader)
    time_zone = str(session.conf.get("spark.sql.session.timeZone", "UTC"))
    if format_name == KAFKA:
        return kafka_options.kafka_options(given, streaming=streaming, time_zone=time_zone)
    count_partitions = partial(cached_partition_count, session, refresh=not query_context().is_starting)
    return event_hubs_options.event_hubs_options(
        given, streaming=streaming, time_zone=time_zone, count_partitions=count_partitions
    )


def _check_connector(session: SparkSession, format_name: str) -> None:
    jvm: Any = session._jvm  # noqa: SLF001 - has no public form
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_PROVIDER)
    except Py4JJavaError:
        raise PipelineError("CONNECTOR.NOT_NAMED", format=format_name, connector=KAFKA) from None


def _events(records: DataFrame) -> DataFrame:
    """Records of a topic with the columns of the vendor's connector.

    Source: the connector's ``EventHubsSourceProvider``; the service's Kafka endpoint does not report the publisher.
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
