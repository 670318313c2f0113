"""The next offsets of a stream that reads topics, from its checkpoint."""

from __future__ import annotations

from headrace.checkpoints.offsets import first_offsets, read_progress
from headrace.sources.kafka_offsets import Partition, positions_of
from headrace.stores.paths import StoragePath


def next_positions(checkpoint: StoragePath, source: int) -> dict[Partition, int]:
    """The next offsets that a source of a checkpoint reads, including batches that will be computed again.

    Empty before the first start. Source: Spark's ``OffsetSeqLog``, and ``KafkaSourceInitialOffsetWriter`` for the start
    of the first batch.
    """
    progress = read_progress(checkpoint)
    if progress is not None and progress.completed and source < len(progress.offsets):
        return positions_of(progress.offsets[source])
    return positions_before(checkpoint, source, 0 if progress is None else progress.batch_id)


def planned_positions(checkpoint: StoragePath, source: int) -> dict[Partition, int]:
    """The offsets at which a source continues after its planned batches; empty without any."""
    progress = read_progress(checkpoint)
    return positions_of(progress.offsets[source]) if progress is not None and source < len(progress.offsets) else {}


def positions_before(checkpoint: StoragePath, source: int, batch_id: int) -> dict[Partition, int]:
    """The start offsets of a batch; empty if the checkpoint does not have them."""
    offsets = first_offsets(checkpoint, batch_id - 1) if batch_id else ()
    if source < len(offsets):
        return positions_of(offsets[source])
    try:
        text = (checkpoint / "sources" / str(source) / "0").read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    # A zero byte that old versions of Spark required, the version, then the offsets.
    return positions_of(text[text.find("{") :]) if "{" in text else {}
