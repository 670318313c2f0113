"""Extracts of an event log for Spark: events of some types in Parquet files.

To read the log itself, Spark replays its Delta log and decodes every event, once for each time that a query names it;
over 100,000 batches that took a second each time. delta-rs makes an extract in a third of a second.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from headrace.delta_log.tables import sql_literal
from headrace.errors import PipelineError
from headrace.events.levels import Level
from headrace.events.schema import SCHEMA
from headrace.events.storage_errors import STORAGE_ERRORS, reason_of

# What views read of an event.
_COLUMNS = ("id", "timestamp", "level", "event_type", "details")
_OF_ORIGIN = ("pipeline_id", "update_id", "dataset_name", "flow_name", "epoch", "batch_id")
_ORIGIN = SCHEMA.field("origin").type
EXTRACT_SCHEMA = pa.schema(
    [
        *(SCHEMA.field(name) for name in _COLUMNS),
        pa.field("origin", pa.struct([_ORIGIN.field(name) for name in _OF_ORIGIN])),
    ]
)


def write_extract(log: str, event_types: Collection[str], folder: Path) -> None:
    """Write the events of some types to a folder of Parquet files with :data:`EXTRACT_SCHEMA`.

    Each type has files of its own, and so have events of the level METRICS, so that a query skips those that it does
    not need.

    Args:
        log: the path of the event log.
        event_types: of our own.
        folder: exists, and has no files.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    listed = ", ".join(map(sql_literal, sorted(event_types)))
    origin = ", ".join(f"'{name}', origin['{name}']" for name in _OF_ORIGIN)
    query = f"SELECT {', '.join(_COLUMNS)}, named_struct({origin}) AS origin FROM events WHERE event_type IN ({listed})"  # noqa: S608 - our own words
    try:
        stream = QueryBuilder().register("events", DeltaTable(log)).execute(query)
        with ExitStack() as stack:
            writers: dict[tuple[str, bool], pq.ParquetWriter] = {}
            for batch in pa.RecordBatchReader.from_stream(stream):
                for part, rows in _parts(pa.Table.from_batches([batch]).cast(EXTRACT_SCHEMA)):
                    if part not in writers:
                        file = folder / f"{len(writers)}.parquet"
                        writers[part] = stack.enter_context(pq.ParquetWriter(file, EXTRACT_SCHEMA, compression="LZ4"))
                    writers[part].write_table(rows)
    except (*STORAGE_ERRORS, pa.ArrowException) as error:
        raise PipelineError("EVENTS.NOT_READABLE", path=log, reason=reason_of(error)) from error


def _parts(events: pa.Table) -> list[tuple[tuple[str, bool], pa.Table]]:
    """The events of each type and level."""
    found = []
    for event_type in events.column("event_type").unique().to_pylist():
        of_type = events.filter(pc.equal(events.column("event_type"), event_type))
        is_metrics = pc.equal(of_type.column("level"), Level.METRICS.value)
        parts = ((True, of_type.filter(is_metrics)), (False, of_type.filter(pc.invert(is_metrics))))
        found += [((event_type, kind), rows) for kind, rows in parts if rows.num_rows]
    return found
