"""The Spark session of a pipeline or a script."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.connectors.class_archive import archive_file, use_archive_option
from headrace.connectors.fetch import jars, storage_jar
from headrace.connectors.java import check_java
from headrace.connectors.spark_home import spark_home
from headrace.spark.cluster.start_failure import start_failure
from headrace.spark.cluster.worker_archives import ship_package
from headrace.spark.jvm.call_sites import record_user_call_sites
from headrace.spark.jvm.class_names import cache_class_lookups
from headrace.spark.jvm.launch import settings_in_file
from headrace.spark.jvm.spark_log import LOG4J, log_pipe, redact_log
from headrace.spark.session.default_confs import (
    DEFAULT_MASTER,
    cores_of,
    is_single_process,
    local_disk_confs,
    merge_confs,
    object_store_confs,
    session_confs,
    static_confs,
)
from headrace.spark.session.object_stores import connect_object_stores
from headrace.spark.session.scoped_confs import is_settable
from headrace.spark.session.submitted_confs import MASTER, check_folder, refuse_connect
from headrace.spark.startup import patches
from headrace.spark.startup.submitted_session import (
    add_to_class_path,
    is_submitted,
    read_submitted,
    submitted_confs,
)

BASE_CONNECTOR = "delta"
OBJECT_STORES = "s3"
# Java exits if its options select two collectors.
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
    """The session of this process: the existing one (under spark-submit, in tests), or a new one.

    Args:
        name: the application's name.
        connectors: the connectors whose jars are needed besides Delta's.
        confs: the project's settings, which override the defaults; its jars and extensions are appended to ours.
            What spark-submit was given overrides both.
        log_folder: the folder of Spark's log and traces; none of them reach the terminal.
        environ: the process environment.
        folder: the base of relative paths (default: the working directory); an existing session keeps its own.
        redact: removes secrets from a line of Spark's log.

    Raises:
        PipelineError: CONNECTOR.* if Java or the jars are missing; SESSION.* for what spark-submit was given, and for
            Spark Connect.
    """
    refuse_connect(environ, confs)
    connectors = frozenset(connectors)
    patches.install()
    record_user_call_sites()
    redact_log(redact)
    session = existing_session()
    if session is None or session.sparkContext._jsc is None:  # noqa: SLF001 - None once it was stopped
        session = _new_session(_Start(name, connectors, confs, log_folder, environ, folder))
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark's way to Java
    cache_class_lookups(jvm)
    master = str(session.sparkContext.master)
    if not is_single_process(master):
        ship_package(session.sparkContext)
    if OBJECT_STORES in connectors:
        connect_object_stores(session, environ)
    cores = cores_of(master)
    stores = object_store_confs() if OBJECT_STORES in connectors else {}
    for key, value in {**session_confs(cores), **stores, **confs, **submitted_confs(jvm)}.items():
        if is_settable(session, key):
            session.conf.set(key, value)
    return session


def existing_session() -> SparkSession | None:
    """The existing session of the program, whichever thread created it.

    It is the one that ``SparkSession.builder.getOrCreate()`` returns, not the active one. The active session may be any
    that created a frame from rows since, such as that of a batch passed to a sink's function.
    """
    return SparkSession._instantiatedSession  # noqa: SLF001 - it has no public form


def class_path_jars(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The jars before Spark's own on the driver's class path: Delta's, so that the class archive covers it, and ours.

    Raises:
        PipelineError: CONNECTOR.* if they are missing.
    """
    return (*jars((BASE_CONNECTOR,), environ=environ), storage_jar(environ=environ))


def log_file(log_folder: Path) -> Path:
    """The path of Spark's log."""
    return log_folder / "spark.log"


@dataclass(frozen=True)
class _Start:
    """What a new session starts from; see ``open_session``."""

    name: str
    connectors: Collection[str]
    confs: Mapping[str, str] = field(repr=False)
    log_folder: Path
    environ: Mapping[str, str]
    folder: Path | None

    @property
    def master(self) -> str:
        """The master of the settings."""
        return self.confs.get(MASTER) or self.environ.get("HEADRACE_MASTER") or DEFAULT_MASTER

    def jars(self) -> tuple[Path, ...]:
        """The locked jars."""
        locked = jars({BASE_CONNECTOR, *self.connectors}, environ=self.environ)
        # Executors write files of state in object stores with a class of the package's own jar.
        return (*locked, storage_jar(environ=self.environ)) if OBJECT_STORES in self.connectors else locked

    def needed(self, master: str, first: Iterable[Path]) -> dict[str, str]:
        """What Headrace sets on this master."""
        return {
            **static_confs(master, str(self.log_folder / "warehouse")),
            **(local_disk_confs(self.confs) if is_single_process(master) else {}),
            **session_confs(cores_of(master)),
            **(object_store_confs() if OBJECT_STORES in self.connectors else {}),
            "spark.app.name": self.name,
            "spark.jars": ",".join(map(str, self.jars())),
            "spark.driver.extraClassPath": os.pathsep.join(map(str, first)),
        }


def _new_session(start: _Start) -> SparkSession:
    for logger in _NOISY_LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        context = _submitted_context(start) if is_submitted() else _started_context(start)
        if not is_single_process(str(context.master)):
            # Java would end it as well, but later than this process; meanwhile the cluster starts executors again.
            atexit.register(context.stop)
        return SparkSession(context)
    except Py4JJavaError as error:
        if not is_submitted() and is_single_process(start.master):
            raise
        raise start_failure(str(error.java_exception), start.log_folder) from error


def _submitted_context(start: _Start) -> SparkContext:
    """The context in the Java process that ``spark-submit`` started."""
    gateway: Any = launch_gateway()
    submitted = read_submitted(gateway.jvm)
    master = submitted.master(start.master)
    if start.folder is not None:
        check_folder(submitted.folder, os.path.realpath(start.folder))
    first = class_path_jars(start.environ)
    needed = start.needed(master, first)
    settings = submitted.merged(needed, {key: value for key, value in start.confs.items() if key != MASTER})
    add_to_class_path(gateway.jvm, dict.fromkeys((*first, *start.jars())))
    return SparkContext(gateway=gateway, conf=SparkConf(loadDefaults=False).setAll(list(settings.items())))


def _started_context(start: _Start) -> SparkContext:
    """The context in a Java process that starts here."""
    environ, master, log_folder = start.environ, start.master, start.log_folder
    java_version = check_java(environ)
    first = class_path_jars(environ)
    needed = start.needed(master, first)
    log_folder.mkdir(parents=True, exist_ok=True)
    log4j = log_folder / "log4j2.properties"
    log4j.write_text(LOG4J, encoding="utf-8")
    settings = merge_confs(needed, start.confs)
    options = settings.get("spark.driver.extraJavaOptions", "")
    chosen = f"{options} {environ.get('JDK_JAVA_OPTIONS', '')} {environ.get('JAVA_TOOL_OPTIONS', '')}"
    if master.startswith("local") and not _COLLECTOR.search(chosen):
        # On few cores, a concurrent collector costs more than the pauses of a parallel one.
        options = f"{options} -XX:+UseParallelGC".strip()
    # A cluster's machines have their own Spark.
    home = spark_home(environ) if master.startswith("local") else None
    stored = use_archive_option(archive_file(java_version, first, home, environ), options)
    options = " ".join(filter(None, (options, f"-Dlog4j2.configurationFile={log4j.as_uri()}", stored)))
    settings["spark.driver.extraJavaOptions"] = options
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # The JVM gets its own process session, so that a signal to the process group reaches only Python (D11), and logs
    # to a file instead of the terminal.
    with log_pipe(log_file(log_folder)) as log, _started_from(home), settings_in_file(settings, start.folder):
        # Settings passed here would be on the command line of the JVM.
        gateway: Any = launch_gateway(
            None, {"stdout": log, "stderr": log, "start_new_session": True, "cwd": start.folder}
        )
    return SparkContext(gateway=gateway, conf=conf)


@contextmanager
def _started_from(home: Path | None) -> Iterator[None]:
    """Make PySpark start the JVM from a Spark home; it reads only the environment of this process."""
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]
