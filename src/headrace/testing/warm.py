"""The session that all tests of a process share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.spark.session import open_session, settable

_SMALL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
}


@contextmanager
def warm_session(connectors: Iterable[str], folder: Path) -> Iterator[SparkSession]:
    """A small session with Delta and *connectors*; it ends with the block, unless it was there before.

    Args:
        connectors: such as ``kafka``.
        folder: for Spark's log and warehouse.
    """
    there = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001 - of any thread
    session = open_session(
        name="headrace tests", connectors=connectors, confs=_SMALL, log_folder=folder, environ=os.environ
    )
    yield session
    if there is None:
        session.stop()


@contextmanager
def unchanged(session: SparkSession) -> Iterator[None]:
    """Put the settings of the session back after the block: a project's own must not reach the next test."""
    before = dict(session.conf.getAll)
    try:
        yield
    finally:
        after = dict(session.conf.getAll)
        for key in after.keys() | before.keys():
            if after.get(key) != before.get(key) and settable(session, key):
                if key in before:
                    session.conf.set(key, before[key])
                else:
                    session.conf.unset(key)
