"""How a session reaches object stores: the connections of the process, as settings of Hadoop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from headrace.stores.connections import connections


def connect_object_stores(session: SparkSession, environ: Mapping[str, str]) -> None:
    """Give Hadoop the connections of all buckets that the process knows, and what the environment says of others.

    Hadoop sends these settings to executors with each job; they are on no command line, and in no list of settings.

    Args:
        session: the session.
        environ: the environment variables.
    """
    hadoop: Any = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - it has no public form
    given = session.sparkContext.getConf()
    for key, value in connections(environ).items():
        # What `spark_conf` says of Hadoop is more than what the environment says.
        if not given.contains(f"spark.hadoop.{key}"):
            hadoop.set(key, value)
