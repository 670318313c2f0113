"""Checks the cluster of an update before the update starts, and sizes its shuffles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.project.lease import held_by
from headrace.project.lease_holders import liveness, read_holder
from headrace.settings.settings import Settings
from headrace.spark.cluster.preflight import check_executors
from headrace.spark.session.default_confs import is_single_process
from headrace.spark.startup.submitted_session import submitted_confs
from headrace.stores.paths import StoragePath, storage_path

_PARTITIONS = "spark.sql.shuffle.partitions"


def is_cluster(session: SparkSession) -> bool:
    """Whether tasks run in other processes than the session's."""
    return not is_single_process(str(session.sparkContext.master))


def refuse_held_lease(file: StoragePath, host: str, now: Callable[[], float]) -> None:
    """Refuse an update while another one runs, before the cluster is checked.

    Args:
        file: of the lease.
        host: this machine's name.
        now: the time of day in seconds.

    Raises:
        PipelineError: LEASE.HELD.
    """
    if liveness(file, host, now).update_id is not None:
        raise held_by(read_holder(file))


def check_cluster(session: SparkSession, settings: Settings) -> None:
    """Check the executors of a cluster; without a setting, shuffles get as many partitions as the cluster has cores.

    A stateful flow keeps the number of its first update.

    Raises:
        PipelineError, Problems: CLUSTER.*
    """
    storage = storage_path(settings.storage)
    # Each task reaches a bucket by itself, with the settings that the driver sends.
    cores = check_executors(session.sparkContext, storage if isinstance(storage, Path) else None)
    given = submitted_confs(session._jvm)  # noqa: SLF001 - PySpark's way to Java
    if _PARTITIONS not in {**settings.spark_conf, **settings.configuration, **given}:
        session.conf.set(_PARTITIONS, str(cores))
