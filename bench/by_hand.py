"""The session of a user who writes Structured Streaming by hand: Delta, the same memory, nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pyspark.sql import SparkSession

from headrace.connectors.fetch import jars

TUNED = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
}


def session(*, tuned: bool, jar_files: Iterable[str] = ()) -> SparkSession:
    """A new session with Delta's defaults, or tuned for a small machine; with these jars, or only Delta's."""
    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "2g")
    builder = builder.config("spark.jars", ",".join(jar_files or map(str, jars({"delta"}, environ=os.environ))))
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    for key, value in TUNED.items() if tuned else ():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
