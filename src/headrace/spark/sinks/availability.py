"""Checks that the session can write the format of a sink."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import PipelineError
from headrace.model.datasets import Dataset
from headrace.model.sinks import SinkDefinition
from headrace.options.nearest import nearest
from headrace.sinks.formats import FORMATS, format_of


def unknown_format(session: SparkSession, dataset: Dataset, sink: SinkDefinition) -> tuple[PipelineError, ...]:
    """A problem if the format of a sink is unknown, or needs a connector that is not named."""
    known = format_of(sink.format)
    if known is not None and known.connector is None:
        return ()
    if _is_available(session, sink.format):
        return ()
    if known is not None:
        name = known.connector
        return (PipelineError("CONNECTOR.NOT_NAMED", location=dataset.location, format=known.name, connector=name),)
    near = nearest(sink.format, [found.name for found in FORMATS.values() if found.declared_by_name])
    return (
        PipelineError(
            "SINK.UNKNOWN_FORMAT",
            location=dataset.location,
            name=dataset.name,
            format=sink.format,
            near=f'The nearest is "{near}".' if near else "",
        ),
    )


def _is_available(session: SparkSession, name: str) -> bool:
    """Source: Spark's ``DataSource.lookupDataSource``, and its registry of sources in Python."""
    jvm: Any = session._jvm  # noqa: SLF001 - neither has a public form
    java_session: Any = session._jsparkSession  # noqa: SLF001 - the same
    if java_session.sessionState().dataSourceManager().dataSourceExists(name):
        return True
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            name, java_session.sessionState().conf()
        )
    except (PySparkException, Py4JJavaError):
        return False
    return True
