"""Puts the small files of a table together once there are many, as the vendor's managed maintenance does.

Delta's own auto compaction is off: it rewrites every table at its first commit in each process, because it counts small
files in memory from there on (``AutoCompactPartitionStats``), and a stream waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from headrace.checkpoints.delta_log import open_table
from headrace.model.datasets import Dataset
from headrace.spark.delta_tables import java_texts

MANAGED_KEY = "pipelines.autoOptimize.managed"
Z_ORDER_KEY = "pipelines.autoOptimize.zOrderCols"
SMALL_FILE_BYTES = 32 * 1024 * 1024
# So many small files make a table due; each is rewritten about once, since what comes out is not small.
COMPACT_ABOVE_FILES = 256
_TARGET_FILE_BYTES = 4 * SMALL_FILE_BYTES


def compact_if_due(session: SparkSession, path: str, dataset: Dataset, fence: Callable[[], None]) -> bool:
    """Rewrite the small files of a table as few, if it has many and its properties allow it; True when that was done.

    No row changes, and streams that read the table see nothing new.

    Args:
        session: runs the rewriting, with settings of its own.
        path: the table.
        dataset: its properties; ``pipelines.autoOptimize.managed=false`` leaves it alone, and
            ``pipelines.autoOptimize.zOrderCols`` names columns to sort by.
        fence: returns while this update may commit, raises once another has taken over.
    """
    managed = dataset.properties.get(MANAGED_KEY, "true").strip().casefold() != "false"
    if not managed or small_files(path) <= COMPACT_ABOVE_FILES:
        return False
    fence()
    java_session: Any = session._jsparkSession.cloneSession()  # noqa: SLF001 - settings for this work alone
    java_session.conf().set("spark.databricks.delta.optimize.minFileSize", str(SMALL_FILE_BYTES))
    java_session.conf().set("spark.databricks.delta.optimize.maxFileSize", str(_TARGET_FILE_BYTES))
    jvm: Any = session._jvm  # noqa: SLF001 - Delta's builder; its Python wheel would add nothing
    optimize = jvm.io.delta.tables.DeltaTable.forPath(java_session, path).optimize()
    columns = [column.strip() for column in dataset.properties.get(Z_ORDER_KEY, "").split(",") if column.strip()]
    if columns and not dataset.cluster_by:
        optimize.executeZOrderBy(java_texts(session, columns))
    else:
        optimize.executeCompaction()
    return True


def small_files(path: str) -> int:
    """How many files of a table are small, by its log; 0 when there is no table."""
    table = open_table(path)
    if table is None:
        return 0
    sizes = pa.table(table.get_add_actions()).column("size_bytes")
    return int(pc.sum(pc.less(sizes, SMALL_FILE_BYTES)).as_py() or 0)

