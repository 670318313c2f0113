"""Runs queries in a clone of the session, which keeps the current settings and whose jobs can be cancelled."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def on_clone(frame: DataFrame, work_group: str) -> DataFrame:
    """The same query in its own session, with the settings that are in force now.

    Later changes of the original session's settings, for other flows, do not affect it.

    Args:
        frame: the query.
        work_group: the job group by which another thread can cancel the query.
    """
    own = clone_of(frame.sparkSession, work_group)
    jvm: Any = own._jvm  # noqa: SLF001
    plan = frame._jdf.logicalPlan()  # noqa: SLF001
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(own._jsparkSession, plan), own)  # noqa: SLF001


def clone_of(session: SparkSession, work_group: str) -> SparkSession:
    """A new session with the settings that are in force now, whose jobs in this thread belong to *work_group*."""
    java_session: Any = session._jsparkSession.cloneSession()  # noqa: SLF001 - what Spark does for each stream
    session.sparkContext.setJobGroup(work_group, work_group, interruptOnCancel=True)
    return SparkSession(session.sparkContext, java_session)
