"""Checks the cluster of an update before the update starts, and sizes its shuffles."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headrace.settings.settings import Settings
from headrace.spark.cluster.preflight import check_executors
from headrace.spark.session.default_confs import is_single_process
from headrace.stores.paths import storage_path

_PARTITIONS = "spark.sql.shuffle.partitions"


def check_cluster(session: SparkSession, settings: Settings) -> None:
    """Check the executors; without a setting, shuffles get as many partitions as the cluster has cores.

    A stateful flow keeps the number of its first update.

    Raises:
        PipelineError, Problems: CLUSTER.*
    """
    if is_single_process(str(session.sparkContext.master)):
        return
    storage = storage_path(settings.storage)
    # Each task reaches a bucket by itself, with the settings that the driver sends.
    folder = storage if isinstance(storage, Path) else None
    cores = check_executors(session.sparkContext, folder)
    if _PARTITIONS not in {**settings.spark_conf, **settings.configuration}:
        session.conf.set(_PARTITIONS, str(cores))
