"""Checks the executors of a cluster with a small job, before an update needs them."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext, cloudpickle
from pyspark.errors import PySparkException

from headrace.errors import PipelineError, raise_all
from headrace.spark.cluster import executor_probe
from headrace.spark.cluster.executor_facts import ExecutorFacts, executor_problems

# What runs in Python workers needs these, besides the package itself.
NEEDED_MODULES = ("headrace", "pyarrow", "numpy", "pandas", "fastavro", "yaml")
# A cluster that is busy, or that starts machines, takes a while.
EXECUTOR_WAIT_S = 300.0
_POLL_S = 0.2
# Spark's own check, before a task begins.
_OTHER_PYTHON = re.compile(r"Python in worker has different version: (\S+) than that in driver: ([^\s,]+)")
_MARK_PREFIX = ".headrace-preflight-"
_ABANDONED_AFTER_S = 3600.0


def check_executors(
    context: SparkContext,
    storage: Path | None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Wait for an executor, and check that the executors can import the package and see the storage, if it is a folder.

    Each task reports about the executor that runs it. There are as many tasks as cores at that time, so executors that
    register later are not checked.

    Returns:
        How many tasks the cluster runs at a time.

    Raises:
        PipelineError: CLUSTER.NO_EXECUTORS, CLUSTER.PYTHON or CLUSTER.PYTHON_VERSION.
        Problems: everything that the executors lack.
    """
    wait_for_executor(lambda: executor_count(context), str(context.master), clock=clock, sleep=sleep)
    cores = max(int(context.defaultParallelism), 1)
    mark = f"{_MARK_PREFIX}{uuid.uuid4().hex}"
    if storage is not None:
        file = storage / mark
        file.write_text(mark, encoding="utf-8")
        # By the clock of the file system.
        remove_abandoned(storage, file.stat().st_mtime)
    # The package may not be importable there.
    cloudpickle.register_pickle_by_value(executor_probe)
    try:
        task = partial(executor_probe.probe, NEEDED_MODULES, None if storage is None else str(storage), mark)
        reports: list[dict[str, Any]] = context.parallelize(range(cores), cores).mapPartitions(task).collect()
    except (PySparkException, Py4JError) as error:
        raise job_failure(str(error)) from error
    finally:
        cloudpickle.unregister_pickle_by_value(executor_probe)
        for written in () if storage is None else storage.glob(f"{mark}*"):
            written.unlink(missing_ok=True)
    raise_all(executor_problems([ExecutorFacts.of(one) for one in reports], str(storage)))
    return cores


def remove_abandoned(storage: Path, now: float) -> None:
    """Remove the files of checks that were killed.

    Args:
        storage: the folder.
        now: the time of its file system, in seconds.
    """
    for file in storage.glob(f"{_MARK_PREFIX}*"):
        with suppress(FileNotFoundError):
            if now - file.stat().st_mtime > _ABANDONED_AFTER_S:
                file.unlink()


def wait_for_executor(
    count: Callable[[], int], master: str, *, clock: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Return as soon as *count* is above 0.

    Raises:
        PipelineError: CLUSTER.NO_EXECUTORS after ``EXECUTOR_WAIT_S``.
    """
    end = clock() + EXECUTOR_WAIT_S
    while count() == 0:
        if clock() >= end:
            raise PipelineError("CLUSTER.NO_EXECUTORS", master=master, seconds=f"{EXECUTOR_WAIT_S:.0f}")
        sleep(_POLL_S)


def executor_count(context: SparkContext) -> int:
    """How many executors are registered."""
    java_context: Any = context._jsc  # noqa: SLF001 - it has no form in Python
    # The driver is one of them.
    return int(java_context.sc().getExecutorMemoryStatus().size()) - 1


def job_failure(text: str) -> PipelineError:
    """The error for a check that failed on an executor, from the text of Spark's exception."""
    versions = _OTHER_PYTHON.search(text)
    if versions is not None:
        return PipelineError("CLUSTER.PYTHON_VERSION", worker=versions[1], driver=versions[2])
    lines = [line.strip() for line in text.splitlines()]
    causes = [line for line in lines if "Cannot run program" in line or "Exception: " in line]
    return PipelineError("CLUSTER.PYTHON", reason=(causes or lines)[0])
