"""Metrics that functions of sinks record with their batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from threading import Lock

from headrace.errors import PipelineError
from headrace.model.custom_metrics import MetricValue, added_values
from headrace.storage.recorded_metrics import recorded_metrics, store_recorded_metrics
from headrace.stores.paths import StoragePath

_RECORDING: ContextVar[list[MetricValue]] = ContextVar("headrace_recorded_metrics")


@contextmanager
def recording() -> Iterator[list[MetricValue]]:
    """Collect what the function that is called inside the block records in this thread."""
    recorded: list[MetricValue] = []
    token = _RECORDING.set(recorded)
    try:
        yield recorded
    finally:
        _RECORDING.reset(token)


def record(metric: MetricValue) -> None:
    """Record a metric with the batch of this thread.

    Raises:
        PipelineError: METRICS.NO_BATCH: no function of a sink is running in this thread.
    """
    recorded = _RECORDING.get(None)
    if recorded is None:
        raise PipelineError("METRICS.NO_BATCH", name=metric.name)
    recorded.append(metric)


class BatchMetrics:
    """What the sinks of a flow recorded with the current batch.

    Args:
        folder: of the flow; holds its record.
        epoch: of the flow.
    """

    def __init__(self, folder: StoragePath, epoch: int) -> None:
        self._folder = folder
        self._epoch = epoch
        self._lock = Lock()
        self._by_sink: dict[str, tuple[MetricValue, ...]] = {}

    def start(self, batch_id: int, *, may_be_repeat: bool) -> None:
        """Start a batch, with what an earlier attempt recorded."""
        self._by_sink = recorded_metrics(self._folder, self._epoch, batch_id) if may_be_repeat else {}

    def set(self, sink: str, values: Sequence[MetricValue]) -> None:
        """What a sink recorded, in place of what it recorded with the batch before."""
        with self._lock:
            self._by_sink = {**self._by_sink, sink: added_values((), values)}

    def store(self, batch_id: int) -> None:
        """Store the metrics, if there are any, before the batch is recorded as delivered."""
        with self._lock:
            if any(self._by_sink.values()):
                store_recorded_metrics(self._folder, self._epoch, batch_id, self._by_sink)

    @property
    def values(self) -> tuple[MetricValue, ...]:
        """The metrics of the batch, over all sinks."""
        return reduce(added_values, self._by_sink.values(), ())
