"""Spark settings for small nodes (D8): defaults that a project's own settings override."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from headrace.settings.memory import DEFAULT_DRIVER_MEMORY, DRIVER_MEMORY_KEY

DEFAULT_MASTER = "local[*]"

# List settings: the project's values are appended to the required ones.
_LISTS: Mapping[str, str] = {
    "spark.jars": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.sql.extensions": ",",
}

_FILE_SYSTEM = "spark.hadoop.fs.file.impl"
_LOG_STORE = "spark.delta.logStore.file.impl"
# Delta refuses a session that names a log store for one scheme and another one for all of them.
_ONE_LOG_STORE = "spark.delta.logStore.class"

# In force when a checkpoint is created, and applied again whenever it is opened: a checkpoint with one state format
# does not open under another.
CHECKPOINT_CONFS: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}


def is_single_process(master: str) -> bool:
    """Whether the tasks of a master run in the session's JVM; those of a local cluster do not."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def cores_of(master: str) -> int:
    """How many tasks run at a time on a master; for a cluster, an estimate that suits small ones."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if local:
        count = local.group(1) or "1"
        return (os.cpu_count() or 1) if count == "*" else max(int(count), 1)
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    return int(cluster.group(1)) * int(cluster.group(2)) if cluster else 8


def merge_confs(needed: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The confs of a new session: the project's own win, but list settings are appended to the required ones.

    An item that is already in a list is not repeated. ``spark.jars.packages`` is not such a list: Spark itself adds its
    packages to ``spark.jars``.
    """
    joined = dict(needed)
    for key, value in own.items():
        separator = _LISTS.get(key)
        joined[key] = value if separator is None else _joined(separator, needed.get(key, ""), value)
    return joined


def _joined(separator: str, *lists: str) -> str:
    return separator.join(dict.fromkeys(filter(None, separator.join(lists).split(separator))))


def static_confs(master: str, warehouse: str) -> dict[str, str]:
    """Settings that must be set before the JVM starts."""
    confs = {
        "spark.master": master,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": warehouse,
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.ui.retainedExecutions": "50",
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        DRIVER_MEMORY_KEY: DEFAULT_DRIVER_MEMORY,
    }
    if master.startswith("local"):
        confs |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return confs


def local_disk_confs(own: Mapping[str, str]) -> dict[str, str]:
    """Settings for a session with the package's own jar for local disks on its class path.

    Args:
        own: the project's settings; if they choose a log store for all schemes, none is set here.
    """
    confs = {
        _FILE_SYSTEM: "io.headrace.storage.ProcessFreeLocalFileSystem",
        _LOG_STORE: "io.headrace.storage.LocalLogStore",
    }
    return {key: value for key, value in confs.items() if key != _LOG_STORE or _ONE_LOG_STORE not in own}


def object_store_confs() -> dict[str, str]:
    """Settings for a session that writes to object stores: the store decides between writers.

    Source: the package's own jar. Delta's log store for S3 lets two drivers replace each other's commits.
    """
    return {
        "spark.delta.logStore.s3a.impl": "io.headrace.storage.ConditionalLogStore",
        "spark.sql.streaming.checkpointFileManagerClass": "io.headrace.storage.ConditionalCheckpointFileManager",
    }


def session_confs(cores: int) -> dict[str, str]:
    """Settings that can change during the session."""
    return {
        "spark.sql.sources.default": "delta",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(cores, 1)),
        # In Spark 4.2.0, a Python UDF directly above a Parquet scan deadlocks (SPARK-58241).
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        # Spark's default, INT96, has no unit. Other readers interpret it as nanoseconds, which silently changes years
        # before 1678 and after 2262.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.streaming.pollingDelay": "50",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # Java never compiles larger methods, such as generated code for many rules, so that Spark must split them.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # Spark's alternative for local disks starts a process for each file name that it checks before a rename, eight
        # per batch. Both write a draft, check that the name is free, and rename.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # A query that is stopping must not block the update forever.
        "spark.sql.streaming.stopTimeout": "10s",
        # Delta rebuilds a table's state in this many tasks; its default of 50 is for clusters.
        "spark.databricks.delta.snapshotPartitions": str(max(cores // 4, 1)),
        # If the time zone is not UTC, Delta reads a table's whole log after each commit to verify the file list in its
        # checksum file (Snapshot.scala). The check is about old timestamps in checkpoints of the log.
        "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
        # Fewer log checkpoints, because batches are small; ``compaction.py`` compacts small files.
        "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
        # The user's code names the schema location of a stream's source; the pipeline chooses the checkpoint location.
        "spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation": "true",
        **CHECKPOINT_CONFS,
    }
