"""The active session of a thread: which one Spark takes where no session is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


def make_active(session: SparkSession) -> None:
    """Make the session the active one of this thread, as code expects that asks for it.

    PySpark is such code: it notes which line of the user's built an expression only while a session is active.
    """
    _java_class(session).setActiveSession(session._jsparkSession)  # noqa: SLF001 - it has no public form


def make_current(session: SparkSession) -> None:
    """Make the session the one that ``SparkSession.getActiveSession()`` returns too.

    PySpark has one for all threads, the last that has made a frame of rows; it may be a batch's, of another query.
    """
    make_active(session)
    SparkSession._activeSession = session  # noqa: SLF001 - it has no public form


@contextmanager
def while_active(session: SparkSession) -> Iterator[None]:
    """The session is the active one of this thread inside the block, and the one before it afterwards.

    Spark looks up a data source's name in the active session, whichever one registers it or reads
    (``DataSource.lookupDataSource``).
    """
    java_class = _java_class(session)
    before = java_class.getActiveSession()
    make_active(session)
    try:
        yield
    finally:
        if before.isDefined():
            java_class.setActiveSession(before.get())
        else:
            java_class.clearActiveSession()


def _java_class(session: SparkSession) -> Any:
    return SparkSession._get_j_spark_session_class(session._jvm)  # noqa: SLF001 - it has no public form
