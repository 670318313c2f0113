"""The reports of streams in an event log, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.events.json_columns import parsed_bodies
from headrace.events.types import StreamProgress
from headrace.model.stream_progress import PHASES

_TYPE = StreamProgress.event_type
REPORTS = (
    "SELECT id, timestamp, origin['update_id'] AS update_id, origin['flow_name'] AS flow, "  # noqa: S608 - our words
    f"origin['dataset_name'] AS dataset, details FROM events WHERE event_type = '{_TYPE}'"
)
TIME = pa.timestamp("us", tz="UTC")
_BODY = pa.struct(
    [
        *((name, pa.string()) for name in ("query_id", "run_id", "slowest_phase")),
        *((name, pa.string()) for name in ("started_at", "watermark", "newest_event_time")),
        *((name, pa.int64()) for name in ("epoch", "batch_id", "batches", "duration_ms", "input_rows")),
        *((name, pa.int64()) for name in ("executor_run_ms", "executor_cpu_ms")),
        *((name, pa.float64()) for name in ("input_rows_per_second", "processed_rows_per_second")),
        ("phases_ms", pa.struct([(name, pa.int64()) for name in PHASES.values()])),
        ("operators", pa.list_(pa.struct([("memory_bytes", pa.int64())]))),
    ]
)


_TIMES = ("started_at", "watermark", "newest_event_time")
_PLAIN = tuple(field.name for field in _BODY if field.name not in {*_TIMES, "phases_ms", "operators"})
# The columns of :func:`reports_of`.
REPORT_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "update_id", "flow", "dataset")),
        ("reported_at", TIME),
        *(_BODY.field(name) for name in _PLAIN),
        *((name, TIME) for name in _TIMES),
        *((f"{name}_ms", pa.int64()) for name in PHASES.values()),
        ("state_memory_bytes", pa.int64()),
    ]
)


def reports_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """What reports say, with :data:`REPORT_SCHEMA`. Of a body in another form, all columns are NULL.

    Args:
        batches: the rows of :data:`REPORTS`.
    """
    return pa.Table.from_batches(map(_columns, batches), REPORT_SCHEMA)


def _columns(events: pa.RecordBatch) -> pa.RecordBatch:
    bodies = parsed_bodies(events.column("details").to_pylist(), _TYPE, _BODY)
    columns = [
        *(events.column(name).cast(pa.string()) for name in ("id", "update_id", "flow", "dataset")),
        events.column("timestamp").cast(TIME),
        *(pc.struct_field(bodies, name) for name in _PLAIN),
        *(_times(pc.struct_field(bodies, name)) for name in _TIMES),
        *(pc.struct_field(bodies, ["phases_ms", name]) for name in PHASES.values()),
        _sums(pc.struct_field(bodies, "operators").to_pylist()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REPORT_SCHEMA)


def _times(texts: pa.Array) -> pa.Array:
    try:
        return pc.cast(texts, TIME)
    except pa.ArrowInvalid:
        # Without an offset, as nothing of ours writes it.
        return pa.array([_time_or_none(text) for text in texts.to_pylist()], TIME)


def _time_or_none(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _sums(operators: Sequence[Any]) -> pa.Array:
    """The memory of all operators of each report; NULL for a body that does not name them."""
    sums = (None if found is None else sum(one["memory_bytes"] or 0 for one in found) for found in operators)
    return pa.array(sums, pa.int64())
