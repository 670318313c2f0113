"""The time that executors spend on the jobs of flows, from a listener in our jar (``src/java``)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.model.executor_time import ExecutorTime

# The greatest number of a batch.
ALL_BATCHES = 2**63 - 1
_SETTLE_TIMEOUT_MS = 1000


class ExecutorTimes:
    """Adds up the time of tasks by job group and batch, while it is open.

    Spark hands the sums of each stage to listeners. A session that was started without our jar, as by spark-submit, has
    no such listener; then all times are unknown.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark has no listeners of stages
        listener: Any = session._jvm.io.headrace.spark.ExecutorTimes  # type: ignore[union-attr]  # noqa: SLF001 - our class
        self._listener: Any = None
        # Without the class, py4j takes the name for that of a package, which cannot be called.
        with suppress(Py4JError, TypeError):
            self._listener = listener()
            self._settle = listener.settle
            self._context.addSparkListener(self._listener)

    def take(self, group: str, last_batch: int = ALL_BATCHES, *, settled: bool = False) -> Mapping[int, ExecutorTime]:
        """The time of each batch of a job group since the last call; empty if unknown.

        Work outside of batches has the number -1.

        Args:
            group: of the jobs; of a stream it is the id of its run.
            last_batch: later ones are left for the next call.
            settled: wait for the stages that have ended; otherwise the last ones may come with the next call.
        """
        if self._listener is None:
            return {}
        # The JVM may be gone.
        with suppress(Py4JError, OSError):
            if settled:
                self._settle(self._context, _SETTLE_TIMEOUT_MS)
            lines = str(self._listener.take(group, last_batch)).splitlines()
            times = (tuple(map(int, line.split())) for line in lines)
            return {batch: ExecutorTime(run_ms, cpu_ms) for batch, run_ms, cpu_ms in times}
        return {}

    def close(self) -> None:
        """Remove the listener."""
        if self._listener is not None:
            with suppress(Py4JError, OSError):
                self._context.removeSparkListener(self._listener)
