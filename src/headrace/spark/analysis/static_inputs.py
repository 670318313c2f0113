"""Static inputs: tables and files that a stream reads as a batch, pinned at its start or listed again while it runs.

Without either, each batch reads the latest version of a Delta table, and the files of a folder that existed when the
query started. Source: Delta's ``TahoeLogFileIndex.getSnapshotToScan``, Spark's ``InMemoryFileIndex``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import PipelineError
from headrace.spark.analysis.relations import delta_index, file_index
from headrace.spark.jvm.plan_nodes import leaves


def pin_static_tables(frame: DataFrame, flow: str) -> DataFrame:
    """The frame with its static Delta tables pinned to their current versions.

    Raises:
        PipelineError: FLOW.STATIC_SUBQUERY, if a table is read in a subquery, which cannot be pinned.
    """
    session = frame.sparkSession
    java: Any = frame._jdf  # noqa: SLF001 - plans have no public form
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    plan = java.queryExecution().analyzed()
    if not plan.subqueriesAll().isEmpty():
        raise PipelineError("FLOW.STATIC_SUBQUERY", flow=flow)
    found = _pinned(plan, jvm)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java.sparkSession(), found), session)


def _pinned(plan: Any, jvm: Any) -> Any:
    children = plan.children()
    if not children.size():
        return _at_this_version(plan) if delta_index(plan) is not None else plan
    changed = jvm.java.util.ArrayList()
    for number in range(children.size()):
        changed.add(_pinned(children.apply(number), jvm))
    return plan.withNewChildren(jvm.org.apache.spark.api.python.PythonUtils.toSeq(changed).toIndexedSeq())


def _at_this_version(leaf: Any) -> Any:
    """The relation, pinned to the current version of its table."""
    relation, files = leaf.relation(), leaf.relation().location()
    log, path, now = files.deltaLog(), files.path(), files.getSnapshot()
    index = files.copy(files.spark(), log, path, now, files.catalogTableOpt(), files.partitionFilters(), True)  # noqa: FBT003
    parts = [relation.productElement(number) for number in range(1, relation.productArity())]
    whole = [leaf.productElement(number) for number in range(1, leaf.productArity())]
    return leaf.copy(relation.copy(index, *parts, relation.sparkSession()), *whole)


class FolderListings:
    """Lists the folders that a running query reads as static inputs again, at intervals.

    Args:
        query: the running query.
        every_s: the interval in seconds.
        now: the clock, in seconds.
    """

    def __init__(self, query: StreamingQuery, every_s: float, now: Callable[[], float]) -> None:
        self._query = query
        self._every_s = every_s
        self._now = now
        self._listed_at = now()

    def refresh(self) -> None:
        """List the folders if it is time; new files are read from the next batch on."""
        if self._now() - self._listed_at < self._every_s:
            return
        java: Any = self._query._jsq  # noqa: SLF001 - plans have no public form
        running = java.streamingQuery()
        if running.lastExecution() is None:
            # Only the thread that computes the first batch may create its plan.
            return
        self._listed_at = self._now()
        for leaf in leaves(running.logicalPlan()):
            location = file_index(leaf)
            if location is not None:
                location.refresh()
