"""Queries in a clone of the session, which has the settings of the moment and whose work can be interrupted."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def on_clone(frame: DataFrame, work_group: str) -> DataFrame:
    """The same query in a session of its own, with the settings that are in force now.

    Later changes of the session's settings, for other flows, do not reach it.

    Args:
        frame: what to run.
        work_group: by which the frame's work can be interrupted from another thread.
    """
    own = clone_of(frame.sparkSession, work_group)
    jvm: Any = own._jvm  # noqa: SLF001
    plan = frame._jdf.logicalPlan()  # noqa: SLF001
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(own._jsparkSession, plan), own)  # noqa: SLF001


def clone_of(session: SparkSession, work_group: str) -> SparkSession:
    """A session of its own with the settings that are in force now, whose work in this thread is *work_group*'s."""
    java_session: Any = session._jsparkSession.cloneSession()  # noqa: SLF001 - what Spark does for each stream
    session.sparkContext.setJobGroup(work_group, work_group, interruptOnCancel=True)
    return SparkSession(session.sparkContext, java_session)
