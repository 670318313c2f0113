"""The tables ``system.streaming.queries`` and ``system.streaming.query_progress`` of a script's streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from headrace.events.system_tables import QUERIES, QUERY_PROGRESS, SystemTable
from headrace.model.stream_progress import StreamBatches, combined
from headrace.spark.notebook.notebook_session import NotebookSession, StartedQuery

_TABLE = re.compile(r"\bsystem\s*\.\s*streaming\s*\.\s*(?P<table>queries|query_progress)\b", re.IGNORECASE)
_TABLES: Mapping[str, SystemTable] = {table.name.name: table for table in (QUERIES, QUERY_PROGRESS)}


def with_system_tables(notebook: NotebookSession, text: str) -> str:
    """A statement with these tables replaced by views of the current state; unchanged if it uses none."""
    wanted = {found["table"].lower() for found in _TABLE.finditer(text)}
    for name in wanted:
        rows = list(_queries(notebook.queries) if name == "queries" else _progress(notebook.queries))
        _make_view(notebook, name, rows)
    return _TABLE.sub(lambda found: _view(found["table"].lower()), text) if wanted else text


def _make_view(notebook: NotebookSession, name: str, rows: Sequence[dict[str, Any]]) -> None:
    session = notebook.session
    lines = session.createDataFrame([(json.dumps(row, default=str),) for row in rows], "line STRING")
    columns = ", ".join(f"{column.name} {column.type}" for column in _TABLES[name].columns)
    frame = lines.selectExpr(f"from_json(line, '{columns}') AS row").select("row.*")
    frame.createOrReplaceTempView(_view(name))


def _view(name: str) -> str:
    return f"headrace_streaming_{name}"


def _queries(queries: Iterable[StartedQuery]) -> Iterator[dict[str, Any]]:
    for started in queries:
        query = started.query
        failure = query.failure()
        batches = _batches(started)
        yield {
            "id": str(query.id),
            "run_id": str(query.runId),
            "name": query.name or started.name,
            "status": "ACTIVE" if query.isActive else "STOPPED" if failure is None else "FAILED",
            "exception": None if failure is None else str(failure).strip().split("\n")[0],
            "batch_id": batches[-1].batch_id if batches else None,
            "started_at": batches[0].started_at if batches else None,
            "last_progress_at": batches[-1].started_at if batches else None,
        }


def _progress(queries: Iterable[StartedQuery]) -> Iterator[dict[str, Any]]:
    for started in queries:
        for batch in _batches(started):
            yield {
                "query_id": str(started.query.id),
                "run_id": str(started.query.runId),
                "query_name": started.query.name or started.name,
                "batch_id": batch.batch_id,
                "timestamp": batch.started_at,
                "input_rows": batch.input_rows,
                "input_rows_per_second": batch.input_rows_per_second,
                "processed_rows_per_second": batch.processed_rows_per_second,
                "batch_duration_ms": batch.duration_ms,
                "batches": batch.batches,
                "watermark": batch.watermark,
                "newest_event_time": batch.newest_event_time,
                "slowest_phase": batch.slowest_phase,
                **{f"{name}_ms": duration_ms for name, duration_ms in batch.phases_ms.items()},
                "state_memory_bytes": sum(operator.memory_bytes for operator in batch.operators),
            }


def _batches(started: StartedQuery) -> list[StreamBatches]:
    """The recent batches of a query, each by itself; Spark keeps a hundred reports."""
    found: list[StreamBatches] = []
    for report in filter(_is_batch, started.query.recentProgress):
        found.append(combined([report], found[-1].started_at if found else None))
    return found


def _is_batch(progress: Any) -> bool:
    """False for the progress of an idle query, which has the number of the next batch."""
    return bool(progress["numInputRows"]) or "addBatch" in progress["durationMs"]
