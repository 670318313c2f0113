"""Checks the cluster of an update before the update starts, and sizes its shuffles."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headrace.settings.settings import Settings
from headrace.spark.cluster.preflight import check_executors
from headrace.spark.session.default_confs import is_single_process
from headrace.spark.startup.submitted_session import submitted_confs

_PARTITIONS = "spark.sql.shuffle.partitions"


def check_cluster(session: SparkSession, settings: Settings) -> None:
    """Check the executors; without a setting, shuffles get as many partitions as the cluster has cores.

    A stateful flow keeps the number of its first update.

    Raises:
        PipelineError, Problems: CLUSTER.*
    """
    if is_single_process(str(session.sparkContext.master)):
        return
    cores = check_executors(session.sparkContext, Path(settings.storage))
    given = submitted_confs(session._jvm)  # noqa: SLF001 - PySpark's way to Java
    if _PARTITIONS not in {**settings.spark_conf, **settings.configuration, **given}:
        session.conf.set(_PARTITIONS, str(cores))
