"""Removes sample rows and values from the event log, for rows that were erased."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from headrace.errors import PipelineError
from headrace.events.schema import SCHEMA
from headrace.events.storage_errors import STORAGE_ERRORS, reason_of
from headrace.events.types import RowsSampled
from headrace.stores.delta_tables import is_delta, open_delta

# A predicate with tens of thousands of ids overflows the stack of its parser.
_MOST_ROWS = 500
_TEXTS = "SELECT id, event_type, message, details, error FROM events"


def erase_from_events(
    path: str, is_erased: Callable[[str], bool], clean: Callable[[str], str], fence: Callable[[], None]
) -> int:
    """Remove sample rows, and clean the other texts, of the event log at a path; returns the number of changed events.

    No event is removed, so that counts and positions of readers stay.

    Args:
        path: of the event log; it may not exist.
        is_erased: whether a sample row, as JSON, was erased.
        clean: a text without the erased values.
        fence: returns while this process may commit.

    Raises:
        PipelineError: EVENTS.NOT_WRITTEN.
    """
    try:
        if not is_delta(path):
            return 0
        table = open_delta(path)
        ids = list(_changed_ids(table, is_erased, clean))
        for first in range(0, len(ids), _MOST_ROWS):
            chunk = ids[first : first + _MOST_ROWS]
            listed = ", ".join("'" + one.replace("'", "''") + "'" for one in chunk)
            rows = _query(table, f"SELECT * FROM events WHERE id IN ({listed})").read_all().to_pylist()  # noqa: S608 - ids of ours
            cleaned = pa.Table.from_pylist([_cleaned(row, is_erased, clean) for row in rows], SCHEMA)
            fence()
            write_deltalake(table, cleaned, mode="overwrite", predicate=f"id IN ({listed})")
            table = open_delta(path)
    except (*STORAGE_ERRORS, pa.ArrowException) as error:
        raise PipelineError("EVENTS.NOT_WRITTEN", path=path, reason=reason_of(error)) from error
    return len(ids)


def count_events(path: str, is_erased: Callable[[str], bool], clean: Callable[[str], str]) -> int:
    """The number of events that :func:`erase_from_events` would change."""
    if not is_delta(path):
        return 0
    return sum(1 for _ in _changed_ids(open_delta(path), is_erased, clean))


def _changed_ids(table: DeltaTable, is_erased: Callable[[str], bool], clean: Callable[[str], str]) -> Iterator[str]:
    for batch in _query(table, _TEXTS):
        for row in batch.to_pylist():
            if _cleaned(row, is_erased, clean) != row:
                yield row["id"]


def _query(table: DeltaTable, query: str) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_stream(QueryBuilder().register("events", table).execute(query))


def _cleaned(row: dict[str, Any], is_erased: Callable[[str], bool], clean: Callable[[str], str]) -> dict[str, Any]:
    before = json.loads(row["details"])
    details = _without_values(before, is_erased, clean)
    error = row["error"]
    return {
        **row,
        "message": clean(row["message"]),
        # Unchanged details keep their text.
        "details": row["details"] if details == before else json.dumps(details),
        "error": error if error is None else _clean_strings(error, clean),
    }


def _without_values(details: Any, is_erased: Callable[[str], bool], clean: Callable[[str], str]) -> Any:
    sampled = details.get(RowsSampled.event_type)
    if not isinstance(sampled, dict):
        return _clean_strings(details, clean)
    rows = [_clean_json(text, clean) for text in sampled["rows"] if not is_erased(text)]
    return {RowsSampled.event_type: {**sampled, "rows": rows}}


def _clean_json(text: str, clean: Callable[[str], str]) -> str:
    before = json.loads(text)
    after = _clean_strings(before, clean)
    return text if after == before else json.dumps(after)


def _clean_strings(value: Any, clean: Callable[[str], str]) -> Any:
    """A JSON value whose strings are cleaned; numbers and names stay, so that it can still be read."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {name: _clean_strings(item, clean) for name, item in value.items()}
    return [_clean_strings(item, clean) for item in value] if isinstance(value, list) else value
