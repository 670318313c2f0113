"""Checks at the start of a flow in real-time mode, for problems that Spark hides or reports forever.

Source: Spark 4.2's ``KafkaMicroBatchStream.planInputPartitions``, which refuses batch options without an error
condition, and ``RealTimeStreamScanExec``, whose tasks all read until the same end: a task that gets no core before it
reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import PipelineError
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.spark.readers.kafka_topics import TopicSource, count_partitions
from headrace.spark.session.default_confs import cores_of
from headrace.spark.update.context import UpdateContext

# Spelling of each option by its lower-case key, as Spark looks it up.
_BATCH_OPTIONS = {
    name.casefold(): name
    for name in (
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "minPartitions",
        "maxRecordsPerPartition",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
    )
}


def check_real_time(context: UpdateContext, flow: ResolvedFlow, sources: Iterable[TopicSource]) -> None:
    """Refuse sources that cannot be read in real time.

    Raises:
        PipelineError: TRIGGER.REAL_TIME; or an error if the broker does not answer.
    """
    partitions = 0
    for source in sources:
        option = next((_BATCH_OPTIONS[key] for key in source.options if key in _BATCH_OPTIONS), None)
        if option is not None:
            raise _refusal(flow, f'its source has the option "{option}", which applies only to batches')
        partitions += count_partitions(context.session, flow, source)
    master = str(context.session.sparkContext.master)
    cores = cores_of(master)
    if master.startswith("local") and partitions > cores:
        reason = f"its topics have {partitions} partitions, and each needs a core, but there are only {cores}"
        raise _refusal(flow, reason)


def _refusal(flow: ResolvedFlow, reason: str) -> PipelineError:
    return PipelineError("TRIGGER.REAL_TIME", location=flow.flow.location, what=f'flow "{flow.name}"', reason=reason)
