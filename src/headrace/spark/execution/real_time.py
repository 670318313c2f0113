"""What keeps a flow from real-time mode and is known when it starts: Spark would leave it unsaid, or say it for ever.

Source: Spark 4.2's ``KafkaMicroBatchStream.planInputPartitions``, which refuses options of batches without a condition,
and ``RealTimeStreamScanExec``, whose tasks read until an end that is the same for all of them: one that gets no core
before has nothing to read.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow
from headrace.spark.readers.kafka_topics import TopicSource, count_partitions
from headrace.spark.session.default_confs import cores_of
from headrace.spark.update.context import UpdateContext

# As they are written, by how Spark looks them up.
_OF_BATCHES = {
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
    """Refuse what cannot be read in real time.

    Raises:
        PipelineError: TRIGGER.REAL_TIME; or why the broker does not answer.
    """
    partitions = 0
    for source in sources:
        option = next((_OF_BATCHES[key] for key in source.options if key in _OF_BATCHES), None)
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
