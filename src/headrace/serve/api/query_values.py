"""The values of a query: numbers, times and words, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NoReturn

from headrace.errors import PipelineError
from headrace.events.envelope import seq_no_at
from headrace.events.levels import Level
from headrace.events.recorded import Stretch
from headrace.serve.api.routes import MOST_ITEMS, Limit
from headrace.serve.whole_numbers import whole_number

# The values of a request: names of its path, and its query.
Values = Mapping[str, str]
_TYPE = re.compile(r"[a-z_]{1,50}")
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def limit_of(values: Values, limit: Limit) -> int:
    """How many items are wanted.

    Raises:
        PipelineError: API.FIELD.
    """
    found = whole_number(values.get("limit", str(limit.default)))
    if found is None or not 1 <= found <= limit.most:
        _refuse("limit", f"it is no whole number from 1 to {limit.most}")
    return found


def before_of(values: Values) -> int | None:
    """The version or sequence number before which items are wanted; None for all.

    Raises:
        PipelineError: API.FIELD.
    """
    text = values.get("before")
    found = None if text is None else whole_number(text)
    if text is not None and found is None:
        _refuse("before", "it is no whole number")
    return found


def version_of(values: Values, name: str) -> int | None:
    """The version of a table that a parameter names; None without it.

    Raises:
        PipelineError: API.FIELD.
    """
    text = values.get(name)
    found = None if text is None else whole_number(text)
    if text is not None and found is None:
        _refuse(name, "it is no version")
    return found


def stretch_of(values: Values) -> Stretch:
    """The part of the event log that is wanted.

    Raises:
        PipelineError: API.FIELD.
    """
    return Stretch(_first(values), before_of(values))


def types_of(texts: Sequence[str]) -> Sequence[str]:
    """The types of events that are wanted; none for all.

    Raises:
        PipelineError: API.FIELD.
    """
    if len(texts) > MOST_ITEMS or not all(_TYPE.fullmatch(one) for one in texts):
        _refuse("type", "it is no type of events, such as update_progress")
    return texts


def levels_of(texts: Sequence[str]) -> Sequence[Level]:
    """The levels of events that are wanted; none for all.

    Raises:
        PipelineError: API.FIELD.
    """
    known = [level.value for level in Level]
    if not all(one in known for one in texts):
        _refuse("level", f"it is none of {', '.join(known)}")
    return [level for level in Level if level.value in texts]


def _first(values: Values) -> int:
    text = values.get("since")
    if text is None:
        return 0
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        _refuse("since", "it is no time with a time zone, such as 2026-11-29T00:00:00Z")
    return seq_no_at(max(found, _FIRST))


def _refuse(name: str, reason: str) -> NoReturn:
    raise PipelineError("API.FIELD", what=f'parameter "{name}"', reason=reason)
