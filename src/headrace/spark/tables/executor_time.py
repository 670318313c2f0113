"""Adds the time of tasks to the batches of flows that are no streams."""

from __future__ import annotations

from dataclasses import replace

from headrace.events.types import BatchDone, Event
from headrace.model.executor_time import sum_of
from headrace.runtime.ports import Emit
from headrace.spark.update.context import UpdateContext


def emit_with_executor_time(context: UpdateContext, flow: str) -> Emit:
    """Where a flow emits its events, which run in its job group: batches get the time of their tasks.

    Streams have groups of their own; their progress has the time.
    """
    times, group = context.reporting.executor_times, context.work_group(flow)

    def emit(event: Event) -> None:
        if isinstance(event, BatchDone):
            event = replace(event, executor_time=sum_of(times.take(group, settled=True).values()))
        context.reporting.emit(event)

    return emit
