"""How much a batch of a stream reads, from its checkpoint, before its rows are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from headrace.autoloader.ledger.file_states import size_of_files
from headrace.autoloader.ledger.positions import Offset
from headrace.autoloader.ledger.stored_ledgers import open_ledger
from headrace.autoloader.source import Source as LoaderSource
from headrace.checkpoints.offsets import first_offsets
from headrace.checkpoints.topic_offsets import positions_before
from headrace.errors import PipelineError
from headrace.graph.analysis import Source, SourceKind
from headrace.sources.kafka_offsets import positions_of
from headrace.stores.paths import StoragePath, storage_path


@dataclass(frozen=True)
class BatchInput:
    """What a batch reads: records of topics, and bytes of files."""

    records: int = 0
    file_bytes: int = 0


def batch_input(checkpoint: StoragePath, batch_id: int, sources: Sequence[Source]) -> BatchInput | None:
    """How much a planned batch reads; None if one of its sources is neither Auto Loader nor a topic, or if it is torn.

    Args:
        checkpoint: of the stream.
        batch_id: its number.
        sources: of the stream, in the order of their offsets.
    """
    ends = first_offsets(checkpoint, batch_id)
    if len(ends) != len(sources) or not sources:
        return None
    starts = first_offsets(checkpoint, batch_id - 1) if batch_id else ()
    records, file_bytes = 0, 0
    for number, source in enumerate(sources):
        end, start = ends[number], starts[number] if number < len(starts) else None
        if source.kind is SourceKind.AUTO_LOADER:
            found = _bytes_of_files(LoaderSource.from_json(source.detail), start, end)
            file_bytes += found or 0
        else:
            found = _records(checkpoint, batch_id, number, end) if source.kind is SourceKind.OTHER else None
            records += found or 0
        if found is None:
            return None
    return BatchInput(records, file_bytes)


def _bytes_of_files(source: LoaderSource, start: Any, end: Any) -> int | None:
    if end is None or end == start:
        return 0
    try:
        upto = Offset.of(end)
        after = Offset.of(start).number if isinstance(start, Mapping) else 0
        with closing(open_ledger(storage_path(source.ledgers), upto.ledger, read_only=True)) as ledger:
            return size_of_files(ledger, after, upto.number)
    except (PipelineError, KeyError, ValueError, TypeError):
        return None


def _records(checkpoint: StoragePath, batch_id: int, number: int, end: Any) -> int | None:
    """The records between the offsets; some of them may be gone."""
    ends = positions_of(end)
    starts = positions_before(checkpoint, number, batch_id)
    if not ends or not ends.keys() <= starts.keys():
        return None
    return sum(max(position - starts[partition], 0) for partition, position in ends.items())
