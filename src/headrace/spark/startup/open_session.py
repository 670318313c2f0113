"""The Spark session of a pipeline or a script."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.connectors.class_archive import archive_file, using
from headrace.connectors.fetch import jars, storage_jar
from headrace.connectors.java import check_java
from headrace.connectors.spark_home import spark_home
from headrace.spark.jvm.call_sites import note_those_of_others
from headrace.spark.jvm.class_names import look_up_once
from headrace.spark.jvm.launch import settings_in_file
from headrace.spark.jvm.spark_log import LOG4J, keep_out, printed_to
from headrace.spark.session.default_confs import (
    DEFAULT_MASTER,
    check_submitted,
    cores_of,
    local_disk_confs,
    session_confs,
    static_confs,
    with_own,
    within_one_process,
)
from headrace.spark.session.scoped_confs import settable
from headrace.spark.startup import patches

ALWAYS_THERE = "delta"
# Of spark-submit, whose Java is there before Python.
SUBMITTED_VARIABLE = "PYSPARK_GATEWAY_PORT"
# Java ends when it is told to use two of them.
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j")


def open_session(
    *,
    name: str,
    connectors: Iterable[str],
    confs: Mapping[str, str],
    log_folder: Path,
    environ: Mapping[str, str],
    folder: Path | None = None,
    redact: Callable[[str], str] = str,
) -> SparkSession:
    """The session of this process: the one that is there (under spark-submit, in tests), or a new one.

    Args:
        name: the application's name.
        connectors: whose jars are needed besides Delta's.
        confs: the project's settings, which win over the defaults; its jars and extensions are added to ours.
        log_folder: where Spark's log and traces go; nothing of them reaches the terminal.
        environ: the process environment.
        folder: what relative paths start at (default: the working directory); a session that is there keeps its own.
        redact: takes secrets out of a line of Spark's log.

    Raises:
        PipelineError: CONNECTOR.* when Java or the jars are missing.
    """
    patches.install()
    note_those_of_others()
    keep_out(redact)
    session = session_there()
    if session is None or session.sparkContext._jsc is None:  # noqa: SLF001 - None once it was stopped
        session = _new_session(name, connectors, confs, log_folder, environ, folder)
    look_up_once(session._jvm)  # noqa: SLF001 - PySpark's way to Java
    cores = cores_of(str(session.sparkContext.master))
    for key, value in {**session_confs(cores), **confs}.items():
        if settable(session, key):
            session.conf.set(key, value)
    return session


def session_there() -> SparkSession | None:
    """The session that the program has, whichever thread made it.

    It is the one that ``SparkSession.builder.getOrCreate()`` returns, and not the active one: that may be any that has
    made a frame of rows since, such as the one of a batch that a sink's function was given.
    """
    return SparkSession._instantiatedSession  # noqa: SLF001 - it has no public form


def first_jars(master: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The jars in front of Spark's own: Delta's, so that its classes can be in the archive too, and the package's.

    The package's own is for local masters alone: the other machines of a cluster do not have it.

    Raises:
        PipelineError: CONNECTOR.* when they are missing.
    """
    delta = jars((ALWAYS_THERE,), environ=environ)
    return (*delta, storage_jar(environ=environ)) if within_one_process(master) else delta


def log_file(log_folder: Path) -> Path:
    """Where Spark logs to."""
    return log_folder / "spark.log"


def _new_session(
    name: str,
    connectors: Iterable[str],
    confs: Mapping[str, str],
    log_folder: Path,
    environ: Mapping[str, str],
    folder: Path | None,
) -> SparkSession:
    java_version = check_java(environ)
    master = confs.get("spark.master") or environ.get("HEADRACE_MASTER") or DEFAULT_MASTER
    first = first_jars(master, environ)
    paths = jars({ALWAYS_THERE, *connectors}, environ=environ)
    log_folder.mkdir(parents=True, exist_ok=True)
    log4j = log_folder / "log4j2.properties"
    log4j.write_text(LOG4J, encoding="utf-8")
    needed = {
        **static_confs(master, str(log_folder / "warehouse")),
        **(local_disk_confs(confs) if within_one_process(master) else {}),
        **session_confs(cores_of(master)),
        "spark.app.name": name,
        "spark.jars": ",".join(map(str, paths)),
        "spark.driver.extraClassPath": os.pathsep.join(map(str, first)),
    }
    settings = with_own(needed, confs)
    options = settings.get("spark.driver.extraJavaOptions", "")
    chosen = f"{options} {environ.get('JDK_JAVA_OPTIONS', '')} {environ.get('JAVA_TOOL_OPTIONS', '')}"
    if master.startswith("local") and not _COLLECTOR.search(chosen):
        # On few cores, work that goes on beside the collector's costs more than its pauses.
        options = f"{options} -XX:+UseParallelGC".strip()
    # A cluster's machines have a Spark of their own.
    home = spark_home(environ) if master.startswith("local") else None
    stored = using(archive_file(java_version, first, home, environ), options)
    options = " ".join(filter(None, (options, f"-Dlog4j2.configurationFile={log4j.as_uri()}", stored)))
    settings["spark.driver.extraJavaOptions"] = options
    for logger in _NOISY_LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # The JVM gets a session of its own, so that a signal to the process group reaches Python alone (D11), and writes
    # to the log instead of the terminal.
    with printed_to(log_file(log_folder)) as log, _started_from(home), settings_in_file(settings, folder):
        # Settings that are given here would be on the command line of the JVM.
        gateway: Any = launch_gateway(None, {"stdout": log, "stderr": log, "start_new_session": True, "cwd": folder})
    if SUBMITTED_VARIABLE in os.environ:
        check_submitted(master, gateway.jvm.java.lang.System.getProperty("spark.master"))
    return SparkSession(SparkContext(gateway=gateway, conf=conf))


@contextmanager
def _started_from(home: Path | None) -> Iterator[None]:
    """Let PySpark start the JVM from a folder; it looks into the environment of this process alone."""
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]
