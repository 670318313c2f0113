"""Chooses the event time and the key of a source among the columns of a sample; several if it is not clear."""

from __future__ import annotations

import re

from headrace.assistant.design.sampling.sample import ColumnMeasure, ColumnSet, SampleMeasures
from headrace.assistant.design.sampling.times import is_time_column

# Fewer distinct rows say nothing about what is unique, and what is never null.
LEAST_ROWS = 100
# A share of nulls that an event time may have: such records are wrong.
_MOST_NULLS = 0.01
# Below it, values repeat because they are no key, not because events are repeated with other values.
_LEAST_UNIQUE = 0.95
_KEY_TYPES = ("string", "integer", "long")
_KEY_NAME = re.compile(r"(?:^|_)(?:id|key|uuid|guid)$|(?<=[a-z])(?:Id|ID|Key|Uuid|UUID|Guid)$", re.IGNORECASE)
# Names of columns that are a part of a key, besides times and those that are a key alone.
_PART_NAME = re.compile(
    r"(?:^|_|(?<=[a-z]))(?:code|no|nr|num|number|seq|sequence|line|position|offset|partition|shard|version)$",
    re.IGNORECASE,
)
# Sets of columns that would be unique by chance too, but for so many pairs of rows, show no key.
_LEAST_BY_CHANCE = 3
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
    """The columns that can identify an event, or the row that it changes; several if none of them is clearly it."""
    measures = measures.key_rows
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


def key_sets(measures: SampleMeasures) -> tuple[ColumnSet, ...]:
    """The sets of columns that can be the key if no column is; several if none of them is clearly it."""
    measures = measures.key_rows
    if keys(measures) or measures.rows - measures.repeated_rows < LEAST_ROWS:
        return ()
    found = tuple(one for one in measures.unique_sets if one.repeated_by_chance >= _LEAST_BY_CHANCE)
    fitting = tuple(one for one in found if all(_is_part(measures, name) for name in one.names))
    # Two events can have the same time.
    timeless = tuple(one for one in fitting if not any(_is_time(measures, name) for name in one.names))
    return next((sets for sets in (timeless, fitting) if len(sets) == 1), found)


def is_clear_key(measures: SampleMeasures, sets: tuple[ColumnSet, ...]) -> bool:
    """Whether the sets that can be the key are one, and the names of its columns are those of a key."""
    return len(sets) == 1 and all(_is_part(measures.key_rows, name) for name in sets[0].names)


def _is_part(measures: SampleMeasures, name: str) -> bool:
    is_named = _KEY_NAME.search(name) or _PART_NAME.search(name)
    return bool(is_named) or (_is_time(measures, name) and not _ARRIVAL.search(name))


def _is_time(measures: SampleMeasures, name: str) -> bool:
    column = measures.column(name)
    return column is not None and (column.column.is_time or column.type == "date" or column.epoch is not None)


def never_null(measures: SampleMeasures) -> tuple[ColumnMeasure, ...]:
    """The columns that have a value in each row; none if there are too few rows."""
    if measures.rows - measures.repeated_rows < LEAST_ROWS:
        return ()
    return tuple(column for column in measures.columns if not column.nulls)


def _preferred(found: tuple[ColumnMeasure, ...], names: re.Pattern[str]) -> tuple[ColumnMeasure, ...]:
    """The only column whose name says that it is the one, otherwise all."""
    named = tuple(column for column in found if names.search(column.name))
    return named if len(named) == 1 else found
