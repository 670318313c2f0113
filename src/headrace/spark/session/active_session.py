"""The active session of a thread, which Spark uses when no session is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


def make_active(session: SparkSession) -> None:
    """Make the session the active one of this thread, for code that asks for the active session.

    PySpark does: it records which line of user code built an expression only while a session is active.
    """
    _java_class(session).setActiveSession(session._jsparkSession)  # noqa: SLF001 - it has no public form


def make_current(session: SparkSession) -> None:
    """Make the session also the one that ``SparkSession.getActiveSession()`` returns.

    PySpark has one for all threads, the last that created a frame from rows; it may belong to another query's batch.
    """
    make_active(session)
    SparkSession._activeSession = session  # noqa: SLF001 - it has no public form


@contextmanager
def while_active(session: SparkSession) -> Iterator[None]:
    """Make the session the active one of this thread inside the block, then restore the former one.

    Spark looks up a data source's name in the active session, whichever session registers or reads it
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
