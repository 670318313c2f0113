"""Reports the tasks of batches that take long, from the jobs that Spark runs."""

from __future__ import annotations

import re
import threading
from typing import Any

from headrace.graph.resolved_flows import StoredFlow
from headrace.runtime.long_batches import LongBatches, RunningJob
from headrace.spark.update.context import UpdateContext

POLL_INTERVAL_S = 2.0
# Spark describes the jobs of a stream so (``StreamExecution.getBatchDescriptionString``); Delta adds what a job is for
# (``DeltaProgressReporter.withJobDescription``).
_BATCH = re.compile(r"^batch = (\d+)\b", re.MULTILINE)


class TaskReporter:
    """Polls the running jobs of the session for one update, in a thread of its own.

    A poll is one call to Spark, and a few more for each running job; it does not depend on how many jobs have ended.
    Whatever goes wrong ends the reports and nothing else.
    """

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._batches = LongBatches()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, flow: StoredFlow, group: str) -> None:
        """Report the jobs of a group as those of a flow; returns at once."""
        with self._lock:
            self._batches.watch(group, flow.name, str(flow.target))
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._poll, name="headrace-tasks", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the reports."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(POLL_INTERVAL_S)

    def _poll(self) -> None:
        reporting = self._context.reporting
        try:
            while not self._closing.wait(POLL_INTERVAL_S):
                jobs = running_jobs(self._context.session.sparkContext)
                with self._lock:
                    due = list(self._batches.observe(jobs, reporting.now()))
                for event in due:
                    reporting.emit(event)
        except Exception:  # noqa: BLE001 - an update must not fail because its progress cannot be shown
            return


def running_jobs(spark_context: Any) -> list[RunningJob]:
    """The jobs with a group that run now."""
    jvm = spark_context._jvm  # noqa: SLF001 - PySpark's status tracker knows no groups and no sums of tasks
    running = jvm.java.util.Collections.singletonList(jvm.org.apache.spark.JobExecutionStatus.RUNNING)
    found = spark_context._jsc.sc().statusStore().jobsList(running)  # noqa: SLF001 - the same
    jobs = (found.apply(index) for index in range(found.size()))
    return [_running_job(job) for job in jobs if job.jobGroup().isDefined()]


def _running_job(job: Any) -> RunningJob:
    description = str(job.description().get()) if job.description().isDefined() else ""
    batch = _BATCH.search(description)
    return RunningJob(
        id=int(job.jobId()),
        group=str(job.jobGroup().get()),
        batch_id=int(batch[1]) if batch else None,
        done=int(job.numCompletedTasks()),
        tasks=int(job.numTasks()) - int(job.numSkippedTasks()),
    )
