"""The JVM that the worker of the project lends: attaches to it, or starts one that the worker keeps."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.connectors.java import java_command, kept_by_option
from headrace.spark.jvm.jvm_state import JvmState
from headrace.spark.jvm.spark_log import copy_log
from headrace.worker.lending import KeptJvm, Lender
from headrace.worker.traits import is_per_verb

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
# In the environment of Python workers, so that no two verbs share one.
_VERB = "HEADRACE_VERB"
# Bash, which starts Java, sets these by itself.
_OF_BASH = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})
_FILES = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles")
_CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_OF_USER = (".aws/credentials", ".aws/config", ".m2/settings.xml", ".ivy2/ivysettings.xml")


def launch_fingerprint(settings: Mapping[str, str], places: Iterable[str], environ: Mapping[str, str]) -> str:
    """A digest of everything that a JVM is started from, but for the environment, which is the worker's.

    Args:
        settings: the settings of the context, and the options for Java.
        places: the working directory, and the folder that Spark is started from.
        environ: names the files that Java and Spark read.
    """
    files = [_stamp(file) for file in _read_files(settings, environ)]
    text = json.dumps([sorted(settings.items()), list(places), files])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class LentJvm:
    """One verb's use of a JVM that the worker keeps."""

    def __init__(self, lender: Lender, fingerprint: str, log: Path) -> None:
        self._lender = lender
        self._fingerprint = fingerprint
        self._log = log
        self._state: JvmState | None = None

    def borrowed(self) -> Any:
        """A gateway to the JVM that the worker has; None if it has none that a new one would equal."""
        jvm = self._lender.borrow(self._fingerprint)
        if jvm is None:
            return None
        copy_log(self._log, os.dup(jvm.output))
        gateway = _gateway(jvm)
        if gateway is None:
            self._lender.end(jvm)
        return gateway

    def started(self, start: Callable[[int, str | None], Any]) -> Any:
        """A gateway to a new JVM, which the worker keeps.

        Args:
            start: starts it; gets the file descriptor for its output, and the option that says who keeps it.
        """
        mark = None
        # Without a worker, it is a JVM of this process.
        with suppress(psutil.Error):
            worker = psutil.Process(self._lender.worker_pid)
            mark = kept_by_option(worker.pid, worker.create_time())
        reading, writing = os.pipe()
        copy_log(self._log, os.dup(reading))
        try:
            with _without_per_verb_variables():
                gateway = start(writing, mark)
        finally:
            os.close(writing)
        parameters = gateway.gateway_parameters
        address = gateway.proc.pid, int(parameters.port), str(parameters.auth_token)
        self._lender.keep(KeptJvm(*address, self._fingerprint, gateway.proc.stdin.fileno(), reading))
        return gateway

    def context(self, gateway: Any, conf: SparkConf) -> SparkContext:
        """The context in the JVM, with a Python side that is this process's."""
        active = _active_context(gateway)
        known = gateway.jvm.JavaSparkContext(active.get()) if active.isDefined() else None
        # PySpark sends each setting to Java, and then takes those of the context there.
        context = SparkContext(gateway=gateway, conf=conf if known is None else _needed_in_python(conf), jsc=known)
        given = {name: value for name, value in os.environ.items() if is_per_verb(name) and name not in _OF_BASH}
        context.environment.update({**given, _VERB: uuid.uuid4().hex})
        self._state = JvmState(context)
        return context

    def give_back(self) -> None:
        """Remove what the verb has left, and let the worker lend the JVM to the next one.

        If this fails, for whatever reason, the worker ends the JVM.
        """
        session = SparkSession._instantiatedSession  # noqa: SLF001 - has no public form
        with suppress(Exception):
            if self._state is not None and session is not None and self._state.restore(session):
                self._lender.give_back()


def _gateway(jvm: KeptJvm) -> Any:
    """A gateway to a JVM; None if it does not answer, or has no context."""
    os.environ.update({_PORT: str(jvm.port), _SECRET: jvm.secret})
    try:
        gateway: Any = launch_gateway()
        has_context = _active_context(gateway).isDefined()
    except (Py4JError, OSError):
        return None
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    return gateway if has_context else None


def _active_context(gateway: Any) -> Any:
    """The context in the JVM, as an option of Scala's."""
    return getattr(getattr(gateway.jvm, "org.apache.spark.SparkContext$"), "MODULE$").getActive()


def _needed_in_python(conf: SparkConf) -> SparkConf:
    """The settings that the Python side of a context reads before it has those of a context in Java."""
    names = ("spark.master", "spark.app.name")
    needed = [(key, value) for key, value in conf.getAll() if key in names or key.startswith("spark.executorEnv.")]
    return SparkConf(loadDefaults=False).setAll(needed)


@contextmanager
def _without_per_verb_variables() -> Iterator[None]:
    """Keep what differs between verbs out of the environment of a JVM that others will use."""
    before = {name: value for name, value in os.environ.items() if is_per_verb(name)}
    for name in before:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(before)


def _read_files(settings: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[Path]:
    """The files that are read when a JVM starts, or once while it runs."""
    with suppress(Exception):
        # A missing Java is reported when it is to be started.
        yield Path(java_command(environ))
    for key in _FILES:
        yield from (Path(name.removeprefix("file:")) for name in settings.get(key, "").split(",") if name)
    for key in _CLASS_PATHS:
        yield from (Path(name) for name in settings.get(key, "").split(os.pathsep) if name)
    for folder in (*(environ.get(name, "") for name in _FOLDERS), str(Path(environ.get("SPARK_HOME", ""), "conf"))):
        if folder and Path(folder).is_dir():
            yield from sorted(Path(folder).iterdir())
    yield from (Path(environ.get("HOME", "/"), name) for name in _OF_USER)


def _stamp(file: Path) -> tuple[str, int, int]:
    try:
        found = file.stat()
    except OSError:
        return str(file), 0, 0
    return str(file), found.st_mtime_ns, found.st_size
