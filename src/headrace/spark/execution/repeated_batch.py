"""Repeats the last batch of a stream that has results to emit."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoints.offsets import read_progress, reopen_batch
from headrace.graph.resolved_flows import StreamingFlow
from headrace.model.datasets import Kind
from headrace.model.triggers import Trigger, TriggerKind
from headrace.spark.readers.kafka_topics import TopicSource, can_repeat_last_batch
from headrace.spark.sinks.create_sink_writer import delivers_batches
from headrace.spark.update.context import UpdateContext
from headrace.storage.change_detection import has_closed_results, uses_clock_timers
from headrace.stores.paths import StoragePath

_NO_BATCH = -1


@dataclass(frozen=True)
class Repeat:
    """The trigger that a query continues with, and the batch that it computes again; later batches are new."""

    trigger: Trigger
    batch_id: int = _NO_BATCH


def repeat_last_batch(
    context: UpdateContext,
    flow: StreamingFlow,
    trigger: Trigger,
    checkpoint: StoragePath,
    sources: tuple[TopicSource, ...],
) -> Repeat:
    """Reopen the last batch of a continuing query where results of it are pending, so that Spark emits them.

    Results are pending if the last batch has closed windows, or if processing-time timers may be due. Spark emits
    them with one more batch, which it plans only after a batch that the same query has computed
    (``MicroBatchExecution.constructNextBatch``), or with new input. So the query computes the last batch again, of
    which the sink writes nothing, and continues from there, which takes more than one batch. If the broker no
    longer has the input of that batch, its state would lack that input: the results wait for new input.
    """
    progress = read_progress(checkpoint)
    if progress is None:
        return Repeat(trigger)
    # Spark computes an open batch first.
    as_it_is = Repeat(trigger, _NO_BATCH if progress.completed else progress.batch_id)
    due = has_closed_results(flow, progress) or (uses_clock_timers(flow) and progress.completed)
    if not due or trigger.kind is TriggerKind.REAL_TIME:
        return as_it_is
    if context.graph.by_name[flow.target].kind is Kind.SINK and not delivers_batches(context, flow):
        # Spark's own writer would get the batch again.
        return as_it_is
    if sources and not can_repeat_last_batch(context, flow, sources, checkpoint):
        return as_it_is
    context.guard.fence()
    reopen_batch(checkpoint, progress.batch_id)
    return Repeat(Trigger() if trigger.kind is TriggerKind.ONCE else trigger, progress.batch_id)
