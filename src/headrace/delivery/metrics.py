"""Metrics that functions of sinks record."""

from __future__ import annotations

import math
from numbers import Real

from headrace.errors import PipelineError
from headrace.model.custom_metrics import MetricValue, is_metric_name
from headrace.spark.sinks.batch_metrics import record


def record_metric(name: str, value: float, *, total: bool = True) -> None:
    """Record a metric with the batch of the running function of ``@dp.foreach_batch_sink``.

    It is stored with the batch once the function returns, so a batch that is repeated after a crash counts once.
    Call it outside of the functions of :func:`deliver_to_all`: if one of them fails, the batch is repeated without
    those that succeeded, and their values are lost.

    Args:
        name: letters, digits and "_"; the label ``metric`` in Prometheus.
        value: a finite number.
        total: values add up, over the calls for a batch and over batches. Otherwise, the newest value counts.

    Raises:
        PipelineError: METRICS.NO_BATCH: no such function is running in this thread, METRICS.INVALID_NAME,
            METRICS.INVALID_VALUE.
    """
    if not is_metric_name(name):
        raise PipelineError("METRICS.INVALID_NAME", name=name)
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise PipelineError("METRICS.INVALID_VALUE", name=name, value=repr(value))
    # Numbers of other libraries have no JSON.
    record(MetricValue(name, value if isinstance(value, int) else float(value), total))
