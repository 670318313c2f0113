"""The context in a JVM that starts here, or that the worker of the project lends."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from headrace.connectors.class_archive import archive_file, use_archive_option
from headrace.connectors.java import check_java
from headrace.connectors.spark_home import spark_home
from headrace.spark.jvm.launch import settings_in_file
from headrace.spark.jvm.spark_log import LOG4J, log_pipe
from headrace.spark.session.default_confs import is_single_process, merge_confs
from headrace.spark.startup.lent_jvm import LentJvm, launch_fingerprint
from headrace.spark.startup.session_start import SessionStart, class_path_jars, log_file
from headrace.worker.lending import lender

# Java exits if its options select two collectors.
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_OPTIONS = "spark.driver.extraJavaOptions"


@dataclass(frozen=True)
class JvmLaunch:
    """What a JVM starts from."""

    settings: Mapping[str, str] = field(repr=False)
    first: tuple[Path, ...]
    # The Spark that it is started from; None for the usual one.
    home: Path | None
    start: SessionStart

    @staticmethod
    def of(start: SessionStart) -> JvmLaunch:
        """What a JVM for a session starts from."""
        environ, master = start.environ, start.master
        first = class_path_jars(environ)
        settings = merge_confs(start.needed(master, first), start.confs)
        options = settings.get(_OPTIONS, "")
        chosen = f"{options} {environ.get('JDK_JAVA_OPTIONS', '')} {environ.get('JAVA_TOOL_OPTIONS', '')}"
        if master.startswith("local") and not _COLLECTOR.search(chosen):
            # On few cores, a concurrent collector costs more than the pauses of a parallel one.
            options = f"{options} -XX:+UseParallelGC".strip()
        options = " ".join(filter(None, (options, f"-Dlog4j2.configurationFile={_log4j(start).as_uri()}")))
        # A cluster's machines have their own Spark.
        home = spark_home(environ) if master.startswith("local") else None
        return JvmLaunch({**settings, _OPTIONS: options}, first, home, start)

    def conf(self) -> SparkConf:
        """The settings for a context."""
        return SparkConf(loadDefaults=False).setAll(list(self.settings.items()))

    def start_jvm(self, java_version: str, log: int, mark: str | None = None) -> Any:
        """Start the JVM; returns its gateway.

        Args:
            java_version: the output of ``java -version``.
            log: the file descriptor for what it prints.
            mark: the option for Java that says who has started it (default: this process).
        """
        archive = archive_file(java_version, self.first, self.home, self.start.environ)
        options = self.settings[_OPTIONS]
        settings = {**self.settings, _OPTIONS: f"{options} {use_archive_option(archive, options)}".strip()}
        folder = self.start.folder
        # The JVM gets its own process session, so that a signal to the process group reaches only Python (D11), and
        # logs to a file instead of the terminal.
        with _started_from(self.home), settings_in_file(settings, folder, mark):
            # Settings passed here would be on the command line of the JVM.
            return launch_gateway(None, {"stdout": log, "stderr": log, "start_new_session": True, "cwd": folder})


def started_context(start: SessionStart, on_end: Callable[[Callable[[], None]], object]) -> SparkContext:
    """The context of a new session.

    Args:
        start: what it starts from.
        on_end: registers what is done when the process ends.
    """
    lent = lender() if is_single_process(start.master) else None
    java_version = "" if lent is not None and lent.has_jvm else check_java(start.environ)
    start.log_folder.mkdir(parents=True, exist_ok=True)
    launch = JvmLaunch.of(start)
    _log4j(start).write_text(LOG4J, encoding="utf-8")
    if start.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log = log_file(start.log_folder)
    if lent is None:
        with log_pipe(log) as output:
            gateway = launch.start_jvm(java_version, output)
        return SparkContext(gateway=gateway, conf=launch.conf())
    fingerprint = launch_fingerprint(launch.settings, (str(start.folder), str(launch.home)), start.environ)
    warm = LentJvm(lent, fingerprint, log)
    gateway = warm.borrowed()
    if gateway is None:
        version = java_version or check_java(start.environ)
        gateway = warm.started(lambda output, mark: launch.start_jvm(version, output, mark))
    context = warm.context(gateway, launch.conf())
    on_end(warm.give_back)
    return context


def _log4j(start: SessionStart) -> Path:
    return start.log_folder / "log4j2.properties"


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
