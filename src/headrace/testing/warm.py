"""The Spark session that all tests of a process share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession

from headrace.spark.session.catalog_entries import temporary_views
from headrace.spark.session.existing_session import existing_session
from headrace.spark.session.scoped_confs import is_settable
from headrace.spark.startup.open_session import open_session
from headrace.testing.java import FIRST_COMPILER

_SMALL = {
    "spark.master": "local[2]",
    # Delta caches every table for an hour: with 1 GB, a session of a few hundred tests spent up to two thirds of a test
    # in full garbage collections.
    "spark.driver.memory": "3g",
    # Java runs a full collection each time its classes outgrow a limit, which starts at 21 MB.
    "spark.driver.extraJavaOptions": f"{FIRST_COMPILER} -XX:MetaspaceSize=512m",
    "spark.sql.shuffle.partitions": "2",
    # Generated code does not pay off for a few rows: Spark generates and compiles some in nearly every task. On 12
    # tests of updates and change data capture the session took 302 s of CPU with it, 205 s without.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    # Spark describes each plan for a UI page that nobody opens; the short form is cheaper.
    "spark.sql.ui.explainMode": "simple",
}


@contextmanager
def warm_session(
    connectors: Iterable[str], folder: Path, confs: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """A small session with Delta and *connectors*; it ends with the block, unless it existed before.

    Args:
        connectors: such as ``kafka``.
        folder: for Spark's log, warehouse and scratch files.
        confs: Spark settings, which override those of the small session.
    """
    existing = existing_session()
    session = open_session(
        name="headrace tests",
        connectors=connectors,
        confs={**_SMALL, "spark.local.dir": str(folder), **confs},
        log_folder=folder,
        environ=os.environ,
    )
    yield session
    if existing is None:
        session.stop()


@contextmanager
def unchanged(session: SparkSession, folder: Path) -> Iterator[None]:
    """Restore the session's settings and Python's modules after the block, so that projects do not affect later tests.

    Temporary views that the block adds are dropped: a memory sink leaves one with the name of its query.

    Args:
        session: the session.
        folder: modules from this folder are removed.
    """
    before, modules, search_path = _settings(session), frozenset(sys.modules), list(sys.path)
    views = temporary_views(session)
    try:
        yield
    finally:
        # Compared in Java: each entry that Python reads is a call.
        if not before.equals(after := _settings(session)):
            _restore_settings(session, dict(before), dict(after))
        for view in temporary_views(session) - views:
            session.catalog.dropTempView(view)
        sys.path[:] = search_path
        for name in sys.modules.keys() - modules:
            origin = getattr(sys.modules[name], "__file__", None)
            if origin and Path(origin).is_relative_to(folder):
                del sys.modules[name]


def _settings(session: SparkSession) -> Any:
    """The current settings, as a Java map."""
    return session._jsparkSession.conf().getAllAsJava()  # noqa: SLF001 - `conf.getAll` makes one Java call per entry


def _restore_settings(session: SparkSession, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    for key in after.keys() | before.keys():
        if after.get(key) != before.get(key) and is_settable(session, key):
            if key in before:
                session.conf.set(key, before[key])
            else:
                session.conf.unset(key)
