"""Names of pipelines in a session with a Hive metastore behind it: in memory, so that the metastore never gets them.

Without this, checking a project would create tables in a metastore that others use (ADR 40).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from headrace.stores.paths import StoragePath

_IMPLEMENTATION = "spark.sql.catalogImplementation"
_HIVE = "hive"


def has_metastore(session: SparkSession) -> bool:
    """Whether the session's own catalog is a Hive metastore."""
    return session.conf.get(_IMPLEMENTATION) == _HIVE


def keep_apart(session: SparkSession, folder: StoragePath) -> None:
    """Put names in memory in front of the session's metastore, if it has one and they are not there yet.

    Args:
        session: the session.
        folder: where schemas in memory are, for Spark; nothing is written there.
    """
    if not has_metastore(session):
        return
    java: Any = session._jsparkSession  # noqa: SLF001 - PySpark's way to Java
    context: Any = java.sparkContext()
    _java_class(session).install(
        java.sharedState().externalCatalog(),
        context.conf(),
        context.hadoopConfiguration(),
        f"file:{folder}",
    )


@contextmanager
def registering(session: SparkSession) -> Iterator[None]:
    """In the block, what this thread creates or drops are names of the pipeline; it may be entered again."""
    if not has_metastore(session):
        yield
        return
    names = _java_class(session)
    before = bool(names.isRegistering())
    names.setRegistering(True)
    try:
        yield
    finally:
        names.setRegistering(before)


def _java_class(session: SparkSession) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark's way to Java
    return jvm.io.headrace.spark.OwnTables
