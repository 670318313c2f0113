"""Chooses the event time and the key of a source among the columns of a sample, or says that they are not clear."""

from __future__ import annotations

import re

from headrace.assistant.design.sampling.sample import ColumnMeasure, SampleMeasures
from headrace.assistant.design.sampling.times import is_time_column

# Fewer distinct rows say nothing about what is unique, and what is never null.
LEAST_ROWS = 100
# A share of nulls that an event time may have: such records are wrong.
_MOST_NULLS = 0.01
# Below it, values repeat because they are no key, not because events are repeated with other values.
_LEAST_UNIQUE = 0.95
_KEY_TYPES = ("string", "integer", "long")
_KEY_NAME = re.compile(r"(?:^|_)(?:id|key|uuid|guid)$|(?<=[a-z])(?:Id|ID|Key|Uuid|UUID|Guid)$", re.IGNORECASE)
# Times of the arrival of a record, or of a change of it, are no times of events.
_ARRIVAL = re.compile(r"ingest|receiv|arriv|process|load|insert|updat|modif|export", re.IGNORECASE)
_EVENT = re.compile(r"event|occur|happen", re.IGNORECASE)


def event_times(measures: SampleMeasures) -> tuple[ColumnMeasure, ...]:
    """The columns that can be the event time; several if none of them is clearly it."""
    found = tuple(
        column
        for column in measures.columns
        if column.time is not None and is_time_column(column.time) and column.nulls <= _MOST_NULLS * measures.rows
    )
    found = tuple(column for column in found if not _ARRIVAL.search(column.name)) or found
    return _preferred(found, _EVENT)


def keys(measures: SampleMeasures) -> tuple[ColumnMeasure, ...]:
    """The columns that can identify an event; several if none of them is clearly it."""
    if measures.rows - measures.repeated_rows < LEAST_ROWS:
        return ()
    found = tuple(
        column
        for column in measures.columns
        if column.type in _KEY_TYPES and column.epoch is None and not column.nulls and column.unique >= _LEAST_UNIQUE
    )
    named = tuple(column for column in found if _KEY_NAME.search(column.name))
    # A column that is unique throughout is a better key than one that is nearly so.
    exact = tuple(column for column in named if column.unique == 1)
    return _preferred(exact or named, _EVENT)


def never_null(measures: SampleMeasures) -> tuple[ColumnMeasure, ...]:
    """The columns that have a value in each row; none if there are too few rows."""
    if measures.rows - measures.repeated_rows < LEAST_ROWS:
        return ()
    return tuple(column for column in measures.columns if not column.nulls)


def _preferred(found: tuple[ColumnMeasure, ...], names: re.Pattern[str]) -> tuple[ColumnMeasure, ...]:
    """The only column whose name says that it is the one, otherwise all."""
    named = tuple(column for column in found if names.search(column.name))
    return named if len(named) == 1 else found
