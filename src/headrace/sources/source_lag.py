"""The lag of this package's sources, from the offsets that Spark reports: nothing is asked of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any

from headrace.model.outcome import SourceLag


def lag_of_offsets(source: str, end: Any, newest: Any) -> SourceLag | None:
    """What a stream had not read of a source; None if its offsets are not those of this package, or tell nothing.

    Args:
        source: the description of the source.
        end: the offset after the last batch, as in Spark's progress.
        newest: the newest offset that the source knew when it planned that batch.
    """
    ended, known = _parsed(end), _parsed(newest)
    if ended is None or known is None:
        return None
    if {"row", "since_ms"} <= ended.keys() & known.keys():
        return SourceLag(source, "synthetic", rows=max(int(known["row"]) - int(ended["row"]), 0))
    if {"after", "begin"} <= ended.keys() & known.keys():
        return _lag_of_column(source, ended["after"], known["after"])
    if "streams" in ended and isinstance(known.get("behind_ms"), int):
        return SourceLag(source, "kinesis", seconds=known["behind_ms"] / 1000)
    return None


def _lag_of_column(source: str, last: Any, newest: Any) -> SourceLag | None:
    """The lag by the values of an increasing column: their distance, or the time between them."""
    if not newest:
        return None
    if last == newest:
        return SourceLag(source, "jdbc", rows=0)
    if not last:
        return None
    begin, end = last[0], newest[0]
    if isinstance(begin, str) and isinstance(end, str):
        with suppress(ValueError, TypeError):
            seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
            return SourceLag(source, "jdbc", seconds=max(seconds, 0.0))
    with suppress(ArithmeticError, ValueError, TypeError):
        return SourceLag(source, "jdbc", distance=max(float(Decimal(str(end)) - Decimal(str(begin))), 0.0))
    return None


def _parsed(offset: Any) -> Mapping[str, Any] | None:
    with suppress(ValueError, TypeError):
        found = json.loads(offset) if isinstance(offset, str) else offset
        return found if isinstance(found, Mapping) else None
    return None
