"""The metrics of what flows cost: the time of Spark's tasks."""

from __future__ import annotations

from headrace.metrics.metric import Metric, MetricKind

_FLOW = ("flow",)

EXECUTOR_RUN = Metric(
    "headrace.executor.time",
    "headrace_executor_run_seconds_total",
    MetricKind.COUNTER,
    "s",
    _FLOW,
    "Time of Spark's tasks, those of all cores added up, waits for storage and for Python included.",
)
EXECUTOR_CPU = Metric(
    "headrace.cpu.time",
    "headrace_executor_cpu_seconds_total",
    MetricKind.COUNTER,
    "s",
    _FLOW,
    "Processor time of Spark's tasks; that of Python functions is not in it.",
)
COST = Metric(
    "headrace.flow.cost",
    "headrace_flow_seconds_per_million_rows",
    MetricKind.GAUGE,
    "s",
    _FLOW,
    "Time of a stream's tasks on all cores for a million rows, in the last full hour; the time of its batches if that "
    "of tasks is unknown; absent below 100,000 rows.",
)
USUAL_COST = Metric(
    "headrace.flow.cost.usual",
    "headrace_flow_usual_seconds_per_million_rows",
    MetricKind.GAUGE,
    "s",
    _FLOW,
    "The median of this in the hours of the 7 days before that read half to twice as many rows; absent below 5 hours.",
)

ALL = (EXECUTOR_RUN, EXECUTOR_CPU, COST, USUAL_COST)
