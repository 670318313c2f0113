"""The tables ``system.streaming.queries`` and ``system.streaming.query_progress`` of a script's streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.spark.notebook.notebook_session import NotebookSession, StartedQuery

_TABLE = re.compile(r"\bsystem\s*\.\s*streaming\s*\.\s*(?P<table>queries|query_progress)\b", re.IGNORECASE)
_COLUMNS = {
    "queries": "id STRING, run_id STRING, name STRING, status STRING, exception STRING",
    "query_progress": (
        "query_id STRING, run_id STRING, query_name STRING, batch_id BIGINT, timestamp TIMESTAMP, input_rows BIGINT, "
        "input_rows_per_second DOUBLE, processed_rows_per_second DOUBLE, batch_duration_ms BIGINT"
    ),
}


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
    frame = lines.selectExpr(f"from_json(line, '{_COLUMNS[name]}') AS row").select("row.*")
    frame.createOrReplaceTempView(_view(name))


def _view(name: str) -> str:
    return f"headrace_streaming_{name}"


def _queries(queries: Iterable[StartedQuery]) -> Iterator[dict[str, Any]]:
    for started in queries:
        query = started.query
        failure = query.failure()
        yield {
            "id": str(query.id),
            "run_id": str(query.runId),
            "name": query.name or started.name,
            "status": "ACTIVE" if query.isActive else "STOPPED" if failure is None else "FAILED",
            "exception": None if failure is None else str(failure).strip().split("\n")[0],
        }


def _progress(queries: Iterable[StartedQuery]) -> Iterator[dict[str, Any]]:
    for started in queries:
        for progress in filter(_is_batch, started.query.recentProgress):
            yield {
                "query_id": str(progress["id"]),
                "run_id": str(progress["runId"]),
                "query_name": started.query.name or started.name,
                "batch_id": progress["batchId"],
                "timestamp": progress["timestamp"],
                "input_rows": progress["numInputRows"],
                "input_rows_per_second": progress["inputRowsPerSecond"],
                "processed_rows_per_second": progress["processedRowsPerSecond"],
                "batch_duration_ms": progress["batchDuration"],
            }


def _is_batch(progress: Any) -> bool:
    """False for the progress of an idle query, which has the number of the next batch."""
    return bool(progress["numInputRows"]) or "addBatch" in progress["durationMs"]
