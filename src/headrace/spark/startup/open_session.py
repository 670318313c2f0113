"""The Spark session of a pipeline or a script."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.connectors.fetch import storage_jar
from headrace.spark.cluster.start_failure import start_failure
from headrace.spark.cluster.worker_archives import ship_package
from headrace.spark.jvm.call_sites import record_user_call_sites
from headrace.spark.jvm.class_names import cache_class_lookups
from headrace.spark.jvm.spark_log import redact_log
from headrace.spark.session.default_confs import cores_of, is_single_process, object_store_confs, session_confs
from headrace.spark.session.existing_session import existing_session
from headrace.spark.session.object_stores import connect_object_stores
from headrace.spark.session.own_tables import has_metastore
from headrace.spark.session.scoped_confs import is_settable
from headrace.spark.session.submitted_confs import MASTER, check_folder, refuse_connect
from headrace.spark.startup import patches
from headrace.spark.startup.session_start import OBJECT_STORES, SessionStart, class_path_jars
from headrace.spark.startup.started_context import started_context
from headrace.spark.startup.submitted_session import (
    add_to_class_path,
    is_submitted,
    read_submitted,
    submitted_confs,
)

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
        session = _new_session(SessionStart(name, connectors, confs, log_folder, environ, folder))
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark's way to Java
    cache_class_lookups(jvm)
    if has_metastore(session):
        # A session that other code has started may lack the class that keeps our names out of its metastore.
        add_to_class_path(jvm, [storage_jar(environ=environ)])
    master = str(session.sparkContext.master)
    if not is_single_process(master):
        ship_package(session.sparkContext)
    if OBJECT_STORES & connectors:
        connect_object_stores(session, environ)
    cores = cores_of(master)
    stores = object_store_confs() if OBJECT_STORES & connectors else {}
    for key, value in {**session_confs(cores), **stores, **confs, **submitted_confs(jvm)}.items():
        if is_settable(session, key):
            session.conf.set(key, value)
    return session


def _new_session(start: SessionStart) -> SparkSession:
    for logger in _NOISY_LOGGERS:
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        context = _submitted_context(start) if is_submitted() else started_context(start, atexit.register)
        if not is_single_process(str(context.master)):
            # Java would end it as well, but later than this process; meanwhile the cluster starts executors again.
            atexit.register(context.stop)
        return SparkSession(context)
    except Py4JJavaError as error:
        if not is_submitted() and is_single_process(start.master):
            raise
        raise start_failure(str(error.java_exception), start.log_folder) from error


def _submitted_context(start: SessionStart) -> SparkContext:
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
