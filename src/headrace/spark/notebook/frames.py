"""Frames in a notebook session: cached streams, and rows built from literal columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

from pyspark.sql import Column, Row

from headrace.spark.notebook.notebook_session import notebook_for

_NOT_KEPT = "{what}() of a stream does nothing: its rows come batch by batch; keep those of a batch in foreachBatch"


def keeping(what: str) -> Callable[[Any], Any]:
    """Wrap ``cache`` and ``persist``: they do nothing for a stream, which has no rows to cache."""

    def wrapping(original: Any) -> Any:
        @wraps(original)
        def keep(self: Any, *arguments: Any, **options: Any) -> Any:
            notebook = notebook_for(self.sparkSession)
            if notebook is None or not self.isStreaming:
                return original(self, *arguments, **options)
            notebook.once(_NOT_KEPT.format(what=what))
            return self

        return keep

    return wrapping


def creating(original: Any) -> Any:
    """Wrap ``createDataFrame``: columns among the values, such as ``current_timestamp()``, are evaluated first."""

    @wraps(original)
    def create(self: Any, data: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(data, list) and any(True for _ in _columns(data)) and notebook_for(self) is not None:
            data = _computed(self, data)
        return original(self, data, *arguments, **options)

    return create


def _columns(rows: list[Any]) -> Iterator[Column]:
    for row in rows:
        values = row.values() if isinstance(row, Mapping) else row if isinstance(row, (tuple, list)) else ()
        yield from (value for value in values if isinstance(value, Column))


def _computed(session: Any, rows: list[Any]) -> list[Any]:
    """The rows with evaluated columns; all are evaluated at once, so that they share one time."""
    columns = [column.alias(f"c{number}") for number, column in enumerate(_columns(rows))]
    values = iter(session.range(1).select(*columns).first())
    found: list[Any] = []
    for row in rows:
        if isinstance(row, Mapping):
            found.append({name: next(values) if isinstance(v, Column) else v for name, v in row.items()})
        elif isinstance(row, (tuple, list)):
            given = [next(values) if isinstance(value, Column) else value for value in row]
            fields = getattr(row, "__fields__", None)
            found.append(Row(*fields)(*given) if fields else tuple(given))
        else:
            found.append(row)
    return found
