"""What a reader of a sample's measures should know: what is left out, not clear, or cannot be measured."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.requirements import Requirements, Source
from headrace.assistant.design.sampling.candidates import LEAST_ROWS, event_times, key_sets, keys, never_null
from headrace.assistant.design.sampling.finding import Findings
from headrace.assistant.design.sampling.proposals import lateness_figure
from headrace.assistant.design.sampling.sample import ColumnMeasure, SampleMeasures
from headrace.assistant.design.sampling.times import is_time_column

_MOST_SETS = 3


def notes(requirements: Requirements, findings: Findings, measures: SampleMeasures) -> Iterator[str]:
    """The notes on a sample, for requirements with the answers that samples propose."""
    if not measures.rows:
        yield "it has no record that can be read"
        return
    yield from _rows(measures)
    source = requirements.source(measures.source)
    if source is not None:
        yield from _undecided(source, measures)
        if "lateness.within" not in findings.by_path:
            yield from _lateness(source, measures)
    known = never_null(measures)
    if known:
        yield f"never null: {_names(known)}"


def _rows(measures: SampleMeasures) -> Iterator[str]:
    if measures.unreadable:
        yield f"{measures.unreadable:,} records or files could not be read; the design sets such records apart"
    if measures.not_utf8:
        yield f"{measures.not_utf8:,} rows have bytes that are not UTF-8; the option `encoding` names another encoding"
    if measures.left_out:
        names = ", ".join(measures.left_out)
        yield f"columns that requirements cannot have, because of their names or those of their fields: {names}"
    if measures.inserted is not None:
        yield "the columns are those of the table: after each change, and before a delete"
    for column in measures.columns:
        if column.type == "string" and column.time is not None and is_time_column(column.time):
            files = f"{measures.format} files are read with the types that they have"
            yield f"the texts of {column.name} are timestamps, but {files}; an event time is a TIMESTAMP"
        if column.epoch is not None:
            yield f"the numbers of {column.name} look like {column.epoch} since 1970, {_use_of(column.epoch, measures)}"


def _use_of(epoch: str, measures: SampleMeasures) -> str:
    """What numbers that look like times can be used for."""
    if measures.inserted is None:
        return "and an event time is a TIMESTAMP"
    # A design reads microseconds, the default of Debezium's connectors.
    argument = "" if epoch == "microseconds" else f' with timestamps="{epoch.removesuffix("econds")}s"'
    return f"which dp.debezium converts in a TIMESTAMP column{argument}"


def _undecided(source: Source, measures: SampleMeasures) -> Iterator[str]:
    if source.event_time is None and measures.inserted is None:
        yield f"event time: {_choice(event_times(measures))}"
    rows = measures.key_rows
    if source.keys:
        return
    if rows.rows - rows.repeated_rows < LEAST_ROWS:
        which = "different" if measures.inserted is None else "inserted"
        yield f"key: fewer than {LEAST_ROWS} {which} rows do not show it"
    elif not (sets := key_sets(measures)):
        yield f"key: {_choice(keys(measures))}"
    else:
        listed = "; ".join(", ".join(one.names) for one in sets[:_MOST_SETS])
        more = f", among {len(sets):,} such sets" if len(sets) > _MOST_SETS else ""
        yield f"key: no column is unique, but together these are{more}: {listed}"


def _choice(columns: tuple[ColumnMeasure, ...]) -> str:
    if not columns:
        return "no column can be it"
    return f"{_names(columns)} can be it" + ("" if len(columns) == 1 else ", and none of them clearly is")


def _lateness(source: Source, measures: SampleMeasures) -> Iterator[str]:
    column = measures.column(source.event_time)
    if column is None or column.time is None:
        return
    time = column.time
    if time.lateness.rows < LEAST_ROWS:
        yield f"lateness: fewer than {LEAST_ROWS} times do not show it"
    elif not time.lateness.late_rows:
        yield f"lateness: no row is late, as in files that are sorted by {column.name}, so no delay is proposed"
    elif not time.has_order_of_arrival:
        yield "lateness: the rows are not in the order of their arrival, so no delay is proposed"
    else:
        yield f"lateness: {lateness_figure(time)}"


def _names(columns: tuple[ColumnMeasure, ...]) -> str:
    return ", ".join(column.name for column in columns)
