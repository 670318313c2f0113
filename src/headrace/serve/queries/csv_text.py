"""Rows as CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from headrace.serve.queries.query_runner import QueryResult


def csv_text(result: QueryResult) -> str:
    """The rows with a header, as RFC 4180 has it. NULL is an empty cell, lists and objects are JSON."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(result.columns)
    writer.writerows([_cell(value) for value in row] for row in result.rows)
    return written.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
