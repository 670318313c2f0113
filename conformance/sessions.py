"""The two sessions that blocks run in: plain Spark with Delta and Kafka, and the notebook session."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from conformance.claims import NOTEBOOK
from conformance.surroundings import java_options
from headrace.connectors.fetch import jars

_CONNECTORS = ("delta", "kafka")
# Failures are in the verdict of the block.
_NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j")
_SMALL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
}


class SessionRunner(ABC):
    """A session that runs one block after the other."""

    session: SparkSession

    @abstractmethod
    def names(self, folder: Path, *, fresh: bool) -> dict[str, Any]:
        """The predefined names of a block; *fresh* also drops the tables of earlier blocks."""

    def drop_all(self) -> None:
        """Drop all tables and views, also those of pipelines, and reset the current schema to ``default``."""
        self.session.catalog.setCurrentDatabase("default")
        java: Any = self.session._jsparkSession  # noqa: SLF001 - SQL from Python counts as a script's
        for (schema,) in self.session.sql("SHOW SCHEMAS").collect():
            for _, table, temporary in self.session.sql(f"SHOW TABLES IN `{schema}`").collect():
                if temporary:
                    self.session.catalog.dropTempView(table)
                else:
                    java.sql(f"DROP TABLE IF EXISTS `{schema}`.`{table}`")

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Restore the session's configuration and listeners after the block."""
        before = dict(self.session.conf.getAll)
        streams: Any = self.session._jsparkSession.streams()  # noqa: SLF001 - Python cannot list listeners
        listening = set(streams.listListeners())
        try:
            yield
        finally:
            for listener in set(streams.listListeners()) - listening:
                streams.removeListener(listener)
            after = dict(self.session.conf.getAll)
            for key in after.keys() | before.keys():
                if after.get(key) == before.get(key):
                    continue
                if key in before:
                    self.session.conf.set(key, before[key])
                else:
                    self.session.conf.unset(key)


def open_runner(kind: str, folder: Path) -> SessionRunner:
    """Open one of the two sessions, with its log in *folder*; a process can open only one."""
    os.chdir(folder)
    for logger in _NOISY_LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    confs = {**_SMALL, "spark.driver.extraJavaOptions": java_options(folder)}
    return _NotebookRunner(confs, folder) if kind == NOTEBOOK else _PlainRunner(confs, folder)


class _PlainRunner(SessionRunner):
    """The session of ``pip install pyspark delta-spark``, with the Kafka connector."""

    def __init__(self, confs: Mapping[str, str], folder: Path) -> None:
        files = jars(_CONNECTORS, environ=os.environ)
        # Delta's jar contains its Python classes; --packages also adds it to the path.
        sys.path += [str(file) for file in files if file.name.startswith("delta-spark")]
        builder: Any = SparkSession.builder
        needed = {
            "spark.jars": ",".join(map(str, files)),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        for key, value in {**confs, **needed}.items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")
        self._warehouse = folder / "warehouse"

    def names(self, folder: Path, *, fresh: bool) -> dict[str, Any]:
        """Only ``spark``."""
        del folder
        if fresh:
            self.drop_all()
            for (schema,) in self.session.sql("SHOW SCHEMAS").collect():
                if schema != "default":
                    self.session.sql(f"DROP SCHEMA {schema} CASCADE")
            shutil.rmtree(self._warehouse, ignore_errors=True)
        return {"spark": self.session}


class _NotebookRunner(SessionRunner):
    """The session of ``headrace.spark_session()``, with all predefined names of a script."""

    def __init__(self, confs: Mapping[str, str], folder: Path) -> None:
        self._confs, self._folder = confs, folder
        self.session = self._open(folder / "storage")

    def names(self, folder: Path, *, fresh: bool) -> dict[str, Any]:
        """``spark``, ``dbutils`` and ``display``."""
        if fresh:
            # Only the pipelines' own cleanup removes their catalog entries.
            import_module("headrace.spark.session.catalog_entries").clear(self.session)
            self.drop_all()
            self._open(folder / "storage")
        state = import_module("headrace.spark.notebook.notebook_session")
        storage_setup = import_module("headrace.scripts.script_storage").script_storage_of(folder, os.environ)
        namespace = import_module("headrace.scripts.namespace").Namespace(
            state.active_notebook(), storage_setup.secrets
        )
        found: dict[str, Any] = namespace.of(folder / "block.py", {})
        return found

    def _open(self, storage: Path) -> SparkSession:
        session: SparkSession = import_module("headrace").spark_session(("kafka",), self._confs, storage)
        return session
