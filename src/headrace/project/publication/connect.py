"""Opens the publication of a pipeline, with the clients of its metastores."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession

from headrace.project.publication.publication import PipelinePublication
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.spark.metastore.connections import metastore_connector
from headrace.spark.session.existing_session import existing_session


def publication_of(
    settings: Settings, environ: Mapping[str, str], secrets: Secrets, session: Callable[[], SparkSession]
) -> PipelinePublication:
    """The publication of a pipeline.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        secrets: looked up when a metastore is connected, and removed from texts.
        session: opens the session, whose Java process connects.
    """

    def open_session() -> SparkSession:
        # Opening the project's would forget what an update has registered in it.
        return existing_session() or session()

    connect = metastore_connector(open_session, secrets, environ)
    return PipelinePublication(settings, connect, secrets.redact, spark_version)
