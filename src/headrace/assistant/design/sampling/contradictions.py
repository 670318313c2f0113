"""Where samples contradict what requirements state. The statement counts; the contradiction is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.assistant.design.durations import spoken
from headrace.assistant.design.requirements import Column, Requirements, Source
from headrace.assistant.design.sampling.finding import Contradiction
from headrace.assistant.design.sampling.proposals import change_events_text, has_changes, rows_text, share_text, time_of
from headrace.assistant.design.sampling.sample import ColumnMeasure, SampleMeasures
from headrace.assistant.design.sampling.times import is_time_column
from headrace.model.ddl import JsonType
from headrace.model.schema import type_text

_SOURCES, _KEYS, _TIMES = "guides/sources", "guides/deduplication", "guides/watermarks"
_CHANGES = "guides/change-data-capture"
_WHOLE = ("byte", "short", "integer", "long")
_FLOATING = ("float", "double")
_EXPECT = "expect such records among the wrong ones"
_AHEAD = "dp.on_time with `ahead`, so that one wrong clock does not make other events too late"


def contradictions(requirements: Requirements, samples: Sequence[SampleMeasures]) -> tuple[Contradiction, ...]:
    """The contradictions between requirements, as stated, and samples."""
    found: list[Contradiction] = []
    for measures in samples:
        source = requirements.source(measures.source)
        if source is not None and measures.rows:
            found += _of_kind(source, measures)
            found += _of_schema(source, measures)
            found += _of_event_time(source, measures)
            found += _of_keys(source, measures, requirements)
            found += _of_lateness(requirements, measures)
    return tuple(found)


def _of_kind(source: Source, measures: SampleMeasures) -> Iterator[Contradiction]:
    path = f"sources.{source.name}"
    if source.kind is not None and measures.operations is not None and not source.is_debezium:
        remedy = "state the kind cdc, and build outputs of the kind scd1 or scd2 from it"
        yield Contradiction(f"{path}.kind", source.kind.value, change_events_text(measures), remedy, _CHANGES)
    if source.is_debezium and source.format is not None and measures.operations is None:
        figure = f"none of {rows_text(measures)} is an envelope of Debezium (before, after, op)"
        yield Contradiction(f"{path}.format", source.format, figure, "state the format json", _CHANGES)


def _of_schema(source: Source, measures: SampleMeasures) -> Iterator[Contradiction]:
    path = f"sources.{source.name}.schema"
    for column in source.columns:
        measured = measures.column(column.name)
        if measured is None:
            figure = f"none of {rows_text(measures)} has a column {column.name}"
            yield Contradiction(f"{path}.{column.name}", column.ddl, figure, "remove or rename the column", _SOURCES)
        elif not _holds(column, measured):
            found = type_text(measured.type).upper() if isinstance(measured.type, str) else type_text(measured.type)
            figure = f"the values of {column.name} are {found}{_share_of_times(column, measured)}"
            remedy = "state the measured type, or STRING"
            yield Contradiction(f"{path}.{column.name}", column.ddl, figure, remedy, _SOURCES)
    known = {column.name.casefold() for column in source.columns}
    others = [column.name for column in measures.columns if column.name.casefold() not in known]
    if source.columns and others:
        figure = f"{rows_text(measures)} have columns that are not stated: {', '.join(others)}"
        remedy = "add the columns that results need; their values are not read until then"
        yield Contradiction(path, f"{len(source.columns)} columns", figure, remedy, "guides/schema-evolution")


def _share_of_times(stated: Column, measured: ColumnMeasure) -> str:
    if not stated.is_time or measured.time is None:
        return ""
    return f", and {share_text(measured.time.parsed)} of them are timestamps"


def _holds(stated: Column, measured: ColumnMeasure) -> bool:
    """Whether a stated type has a place for the values of a sample; nested types are compared by their kind."""
    wanted: JsonType = stated.type
    found: JsonType = measured.type
    if wanted in (found, "string", "variant", None) or (measured.nulls and not measured.distinct):
        return True
    if isinstance(wanted, dict) or isinstance(found, dict):
        return isinstance(wanted, dict) and isinstance(found, dict) and _kind(wanted) == _kind(found)
    if wanted in _FLOATING or str(wanted).startswith("decimal"):
        return found in (*_WHOLE, *_FLOATING) or str(found).startswith("decimal")
    if wanted in _WHOLE:
        # Whole numbers of JSON are always BIGINT.
        return found in _WHOLE
    if stated.is_time:
        return found in ("timestamp", "timestamp_ntz", "date")
    return bool(wanted == "binary")


def _kind(kind: JsonType) -> str:
    # An object of JSON can be read as a map.
    return "struct" if kind["type"] == "map" else str(kind["type"])


def _of_event_time(source: Source, measures: SampleMeasures) -> Iterator[Contradiction]:
    path, name = f"sources.{source.name}.event_time", source.event_time
    column = measures.column(name)
    if name is None:
        return
    if column is None:
        # A stated column that is missing is reported below schema.
        if not source.columns:
            figure = f"none of {rows_text(measures)} has a column {name}"
            yield Contradiction(path, name, figure, "name a column that the records have", _TIMES, blocks=True)
        return
    blocks = not source.columns and not column.column.is_time
    figure = _no_times(column)
    if figure:
        yield Contradiction(path, name, figure, "name a column with timestamps", _TIMES, blocks=blocks)
    if column.nulls:
        figure = f"{column.nulls:,} of {rows_text(measures)} have no value in it"
        yield Contradiction(path, name, figure, _EXPECT, _TIMES)
    if column.time is not None and column.time.ahead:
        figure = f"{column.time.ahead:,} of {rows_text(measures)} are more than a day ahead of the clock"
        yield Contradiction(path, name, figure, _AHEAD, "troubleshooting/time-ahead")


def _no_times(column: ColumnMeasure) -> str:
    """What is wrong with the values of an event time; empty if nothing is."""
    if column.epoch is not None:
        return f"its numbers look like {column.epoch} since 1970, and an event time is a TIMESTAMP"
    if column.time is None:
        return "its values are no timestamps"
    if column.type == "string" and is_time_column(column.time):
        return "its values are texts in the files, and an event time is a TIMESTAMP"
    return "" if column.time.parsed == 1 else f"{share_text(1 - column.time.parsed)} of its values are no timestamps"


def _of_keys(source: Source, measures: SampleMeasures, requirements: Requirements) -> Iterator[Contradiction]:
    path, stated, key = f"sources.{source.name}.keys", ", ".join(source.keys), measures.keys
    missing = [name for name in source.keys if measures.column(name) is None]
    if missing and not source.columns:
        figure = f"none of {rows_text(measures)} has a column {', '.join(missing)}"
        yield Contradiction(path, stated, figure, "name columns that the records have", _KEYS, blocks=True)
    if key is None:
        return
    if key.nulls:
        figure = f"{key.nulls:,} of {rows_text(measures)} have no value in it"
        yield Contradiction(path, stated, figure, _EXPECT, _KEYS)
    if has_changes(source, requirements):
        return
    if key.conflicting:
        figure = (
            f"{key.repeated:,} of {rows_text(measures)} repeat a key, and {key.conflicting:,} of these differ from the "
            f"row before"
        )
        yield Contradiction(path, stated, figure, "add a column to the key, or accept that the first row counts", _KEYS)
    share = key.repeated / measures.rows
    if "duplicates" in source.lines and share > source.duplicate_share and key.repeated > 1:
        figure = f"{share_text(share)} of {rows_text(measures)} repeat a key"
        remedy = "state the measured share, and remove duplicates with an output of the kind dedup"
        duplicates = share_text(source.duplicate_share)
        yield Contradiction(f"sources.{source.name}.duplicates", duplicates, figure, remedy, _KEYS)


def _of_lateness(requirements: Requirements, measures: SampleMeasures) -> Iterator[Contradiction]:
    stated, time = requirements.lateness, time_of(requirements, measures)
    if stated.within_s is None or time is None or not time.has_order_of_arrival:
        return
    late = time.lateness
    beyond = late.dropped_by(stated.within_s)
    if beyond > (1 - stated.share) * late.rows:
        figure = (
            f"{share_text(beyond / late.rows)} of {late.rows:,} rows are as late or later, and "
            f"{share_text(1 - stated.share)} may be; {spoken(late.suggested_s or 0)} would be enough"
        )
        path = "lateness.within"
        yield Contradiction(path, spoken(stated.within_s), figure, "state a longer delay", _TIMES)
