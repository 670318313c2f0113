"""Spark settings for small nodes (D8): defaults that a project's own settings override."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from headrace.errors import PipelineError

DEFAULT_MASTER = "local[*]"

# Lists: what a project says is added to what is needed anyway, and does not replace it.
_LISTS: Mapping[str, str] = {
    "spark.jars": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.sql.extensions": ",",
}

_FILE_SYSTEM = "spark.hadoop.fs.file.impl"
_LOG_STORE = "spark.delta.logStore.file.impl"
# Delta refuses a session that names a log store for one scheme and another one for all of them.
_ONE_LOG_STORE = "spark.delta.logStore.class"

# In force when a checkpoint is made, and applied again whenever it is opened: a checkpoint of one state format does
# not open under another.
CHECKPOINT_CONFS: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}


def within_one_process(master: str) -> bool:
    """Whether the tasks of a master run in the JVM of the session; those of a local cluster do not."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def check_submitted(master: str, submitted: str | None) -> None:
    """Refuse a master that spark-submit was given and that the session would not have.

    Args:
        master: the one of the settings, or of the environment.
        submitted: the one that Java was started with by spark-submit, if it was.

    Raises:
        PipelineError: SESSION.OTHER_MASTER.
    """
    if submitted is not None and submitted.casefold() != master.casefold():
        raise PipelineError("SESSION.OTHER_MASTER", submitted=submitted, master=master)


def cores_of(master: str) -> int:
    """How many tasks run at a time on a master; for a cluster, a guess that suits small ones."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if local:
        count = local.group(1) or "1"
        return (os.cpu_count() or 1) if count == "*" else max(int(count), 1)
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    return int(cluster.group(1)) * int(cluster.group(2)) if cluster else 8


def with_own(needed: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The confs of a new session: a project's own win, but what it lists is added behind what is needed.

    ``spark.jars.packages`` is no such list: Spark adds what it names to ``spark.jars`` by itself.
    """
    joined = dict(needed)
    for key, value in own.items():
        parts = (needed.get(key), value) if key in _LISTS else (value,)
        joined[key] = _LISTS.get(key, "").join(filter(None, parts))
    return joined


def static_confs(master: str, warehouse: str) -> dict[str, str]:
    """Settings that must be there before the JVM starts."""
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
        "spark.driver.memory": "2g",
    }
    if master.startswith("local"):
        confs |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return confs


def local_disk_confs(own: Mapping[str, str]) -> dict[str, str]:
    """Settings for a session whose class path has the package's own jar, which is used for local disks.

    Args:
        own: the project's settings; a log store that it chooses for all schemes stays the only one.
    """
    confs = {
        _FILE_SYSTEM: "io.headrace.storage.ProcessFreeLocalFileSystem",
        _LOG_STORE: "io.headrace.storage.LocalLogStore",
    }
    return {key: value for key, value in confs.items() if key != _LOG_STORE or _ONE_LOG_STORE not in own}


def session_confs(cores: int) -> dict[str, str]:
    """Settings that may change while the session lives."""
    return {
        "spark.sql.sources.default": "delta",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(cores, 1)),
        # Spark 4.2.0 and a Python UDF right above a scan of Parquet wait for each other for ever (SPARK-58241).
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        # Spark's own default of 96 bits has no unit. Other readers take it for nanoseconds, in which years before 1678
        # and after 2262 are others, without an error.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.streaming.pollingDelay": "50",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # Java never compiles a method of more bytes, such as the one for many rules: Spark is to make several of it.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # The other one that Spark has for local disks starts a process for each name that it looks at before it
        # renames, eight of them a batch. Both write a draft, look whether the name is free, and rename.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # A query that is told to stop must not keep the update waiting for ever.
        "spark.sql.streaming.stopTimeout": "10s",
        # Delta rebuilds a table's state in this many tasks; its default of 50 is for clusters.
        "spark.databricks.delta.snapshotPartitions": str(max(cores // 4, 1)),
        # Where the time zone is not UTC, Delta reads a table's whole log after each commit to check the list of files
        # that it keeps beside it (Snapshot.scala). The check is for what old times become in checkpoints of the log.
        "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
        # Small batches: fewer checkpoints of the log. Small files are put together by ``compaction.py``.
        "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
        # A folder for the schemas of a stream's source is named in code, that of its checkpoint is the pipeline's.
        "spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation": "true",
        **CHECKPOINT_CONFS,
    }
