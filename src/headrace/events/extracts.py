"""Extracts of an event log for SQL: the events that views need, in Parquet files.

Spark replays the Delta log of a table and decodes every event, each time that a query names it. Over 100,000 batches
that takes a second each time, and delta-rs makes an extract in half a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import QueryBuilder

from headrace.errors import PipelineError
from headrace.events.levels import Level
from headrace.events.log_parts import EXTRACTED_COLUMNS, EXTRACTED_ORIGIN, Part, part_queries
from headrace.events.schema import SCHEMA
from headrace.events.storage_errors import STORAGE_ERRORS, reason_of
from headrace.stores.delta_tables import open_delta

_ORIGIN = SCHEMA.field("origin").type
EXTRACT_SCHEMA = pa.schema(
    [
        *(SCHEMA.field(name) for name in EXTRACTED_COLUMNS),
        pa.field("origin", pa.struct([_ORIGIN.field(name) for name in EXTRACTED_ORIGIN])),
    ]
)


def write_extract(log: str, parts: Collection[Part], folder: Path) -> int:
    """Write parts of an event log to a folder of Parquet files with :data:`EXTRACT_SCHEMA`; returns how many events.

    Each type has files of its own, and so have events of the level METRICS, so that a query skips those that it does
    not need.

    Args:
        log: the path of the event log.
        parts: what to write.
        folder: exists, and has no files.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    events = 0
    try:
        table = open_delta(log)
        with ExitStack() as stack:
            writers: dict[tuple[str, bool], pq.ParquetWriter] = {}
            for query in part_queries(parts):
                stream = QueryBuilder().register("events", table).execute(query)
                for batch in pa.RecordBatchReader.from_stream(stream):
                    events += batch.num_rows
                    for kind, rows in _by_kind(pa.Table.from_batches([batch]).cast(EXTRACT_SCHEMA)):
                        if kind not in writers:
                            file = folder / f"{len(writers)}.parquet"
                            new = pq.ParquetWriter(file, EXTRACT_SCHEMA, compression="LZ4")
                            writers[kind] = stack.enter_context(new)
                        writers[kind].write_table(rows)
    except (*STORAGE_ERRORS, pa.ArrowException) as error:
        raise PipelineError("EVENTS.NOT_READABLE", path=log, reason=reason_of(error)) from error
    return events


def _by_kind(events: pa.Table) -> Iterator[tuple[tuple[str, bool], pa.Table]]:
    """The events of each type, those of the level METRICS apart."""
    for event_type in events.column("event_type").unique().to_pylist():
        of_type = events.filter(pc.equal(events.column("event_type"), event_type))
        is_metrics = pc.equal(of_type.column("level"), Level.METRICS.value)
        for kind, rows in ((True, of_type.filter(is_metrics)), (False, of_type.filter(pc.invert(is_metrics)))):
            if rows.num_rows:
                yield (event_type, kind), rows
