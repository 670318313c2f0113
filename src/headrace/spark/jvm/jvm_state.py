"""What a program leaves in a JVM that another one uses after it: removes it, or finds that it cannot be removed.

Confs, temporary views, functions and tables are those of a session and its shared state, which each program has for
itself. Everything else of the JVM is listed here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.sql import SparkSession

# The objects that py4j itself has in the JVM, by their ids.
_OF_PY4J = ("t", "j", "GATEWAY_SERVER")
_SETTLE_TIMEOUT_MS = 2000
# Above this share of the heap, after a collection, something has leaked.
_MOST_HEAP = 0.6


class JvmState:
    """The state of the JVM when a program began to use it; all of it is read, and nothing kept, in Java."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._jvm: Any = context._jvm  # noqa: SLF001 - PySpark's way to Java
        self._spark: Any = context._jsc.sc()  # noqa: SLF001 - the same
        self._system: Any = self._class("java.lang.System")
        self._hadoop = self._hadoop_settings()
        self._properties: Any = self._system.getProperties().clone()
        self._zone: Any = self._class("java.util.TimeZone").getDefault()
        self._locale: Any = self._class("java.util.Locale").getDefault()
        self._listeners = {self._identity(listener) for listener in self._spark.listenerBus().listeners()}
        self._added = self._additions()
        self._has_files = not (self._spark.addedFiles().isEmpty() and self._spark.addedArchives().isEmpty())
        # Absolute, unless Spark has none for the driver.
        self._folder = Path(self._class("org.apache.spark.SparkFiles").getRootDirectory())
        self._files = set(self._folder.iterdir()) if self._folder.is_absolute() else None

    def restore(self, session: SparkSession) -> bool:
        """Remove what the program has left; False if something is left that cannot be removed.

        Args:
            session: the session of the program. It cannot be used any more, nor can anything else of py4j.
        """
        if (
            self._files is None
            or self._spark.isStopped()
            or self._additions() != self._added
            or self._is_running(session)
        ):
            return False
        self._remove_listeners()
        self._remove_files()
        session._jsparkSession.sharedState().cacheManager().clearCache()  # noqa: SLF001 - has no public form
        self._class("org.apache.spark.sql.execution.streaming.state.StateStore").stop()
        self._class("org.apache.spark.sql.delta.DeltaLog").clearCache()
        self._unpersist()
        self._class("org.apache.hadoop.fs.FileSystem").closeAll()
        self._restore_hadoop()
        self._system.setProperties(self._properties)
        self._class("java.util.TimeZone").setDefault(self._zone)
        self._class("java.util.Locale").setDefault(self._locale)
        self._stop_python_workers()
        sessions = self._class("org.apache.spark.sql.classic.SparkSession")
        sessions.clearActiveSession()
        sessions.clearDefaultSession()
        return self._release_objects()

    def _class(self, name: str) -> Any:
        found = self._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _identity(self, of: Any) -> int:
        return int(self._system.identityHashCode(of))

    def _hadoop_settings(self) -> Any:
        return self._spark.hadoopConfiguration().getPropsWithPrefix("")

    def _additions(self) -> tuple[Any, ...]:
        """What can be added to a context, and not be removed."""
        spark = self._spark
        root = self._class("org.apache.logging.log4j.LogManager").getRootLogger()
        return int(spark.allAddedJars().size()), bool(spark.checkpointDir().isDefined()), str(root.getLevel())

    def _is_running(self, session: SparkSession) -> bool:
        """Whether streams or jobs of the program still run."""
        shared = session._jsparkSession.sharedState()  # noqa: SLF001 - has no public form
        if not shared.activeStreamingQueries().isEmpty():
            return True
        self._spark.listenerBus().waitUntilEmpty(_SETTLE_TIMEOUT_MS)
        return len(self._context.statusTracker().getActiveJobsIds()) > 0

    def _remove_listeners(self) -> None:
        bus = self._spark.listenerBus()
        for listener in list(bus.listeners()):
            if self._identity(listener) not in self._listeners:
                bus.removeListener(listener)

    def _unpersist(self) -> None:
        """Forget rows that were kept apart from the cache of the session, as Delta keeps the files of tables."""
        kept = self._spark.getPersistentRDDs().valuesIterator()
        while kept.hasNext():
            kept.next().unpersist(False)  # noqa: FBT003 - Scala's

    def _remove_files(self) -> None:
        """Remove the files that were added for Python workers, whose folder is on the path of modules."""
        if not self._has_files:
            self._spark.addedFiles().clear()
            self._spark.addedArchives().clear()
        for file in () if self._files is None else set(self._folder.iterdir()) - self._files:
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file)
            else:
                file.unlink()
        shutil.rmtree(self._context._temp_dir, ignore_errors=True)  # noqa: SLF001 - PySpark leaves it to Java's end

    def _restore_hadoop(self) -> None:
        settings = self._spark.hadoopConfiguration()
        # Compared in Java: there are more than a thousand.
        new, old = self._hadoop_settings(), self._class("java.util.HashMap")(self._hadoop)
        old.entrySet().removeAll(new.entrySet())
        new.entrySet().removeAll(self._hadoop.entrySet())
        for key in list(new.keySet()):
            settings.unset(key)
        for key in list(old.keySet()):
            settings.set(key, old.get(key))

    def _stop_python_workers(self) -> None:
        """End the processes that ran functions: they have imported the project's modules, and the environment."""
        environment = self._class("org.apache.spark.SparkEnv").get()
        field = environment.getClass().getDeclaredField("pythonWorkers")
        field.setAccessible(True)
        factories = field.get(environment)
        values = factories.valuesIterator()
        while values.hasNext():
            values.next().stop()
        factories.clear()

    def _release_objects(self) -> bool:
        """Forget all objects that Python has referred to, and check that they leave the heap."""
        runtime = self._class("java.lang.Runtime").getRuntime()
        if self._heap_share(runtime) > _MOST_HEAP:
            self._system.gc()
        is_small = self._heap_share(runtime) <= _MOST_HEAP
        kept: Any = self._class("java.util.ArrayList")()
        for name in _OF_PY4J:
            kept.add(name)
        names = self._bindings().keySet()
        # The objects of this very call are among those that it removes.
        names.retainAll(kept)
        return is_small

    def _bindings(self) -> Any:
        gateway: Any = self._context._gateway  # noqa: SLF001 - has no public form
        return JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway().getBindings()  # noqa: SLF001 - as PySpark reaches it

    @staticmethod
    def _heap_share(runtime: Any) -> float:
        return float(runtime.totalMemory() - runtime.freeMemory()) / float(runtime.maxMemory())
