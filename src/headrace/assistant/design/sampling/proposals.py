"""Proposes the answers that requirements lack, from what samples show. What is stated is never replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.assistant.design.durations import interval, spoken
from headrace.assistant.design.questions import needs_lateness
from headrace.assistant.design.requirements import CHANGES, Output, OutputKind, Requirements, Source, SourceKind
from headrace.assistant.design.sampling.candidates import (
    LEAST_ROWS,
    event_times,
    is_clear_key,
    key_sets,
    keys,
    never_null,
)
from headrace.assistant.design.sampling.finding import Proposal
from headrace.assistant.design.sampling.sample import ColumnMeasure, ColumnSet, SampleMeasures, TimeMeasure
from headrace.model.lateness import SHARES

# Why the files of a sample need an option.
_OPTIONS = {
    "header": "The first line of the sample's files was read as the names of the columns.",
    "sep": "The names of the sample's files end with .tsv.",
    "multiLine": "The first file of the sample is one JSON value over several lines.",
}
_OPERATIONS = {"c": "inserts", "r": "rows of a snapshot", "u": "updates", "d": "deletes", "t": "truncates"}
# Steps that keep the columns of a source and their names.
_KEEPING = (OutputKind.BRONZE, OutputKind.CLEAN, OutputKind.DEDUP)


def propose(requirements: Requirements, samples: Sequence[SampleMeasures]) -> tuple[Requirements, tuple[Proposal, ...]]:
    """The requirements with proposed answers, and the proposals; each has the figure that it stands on."""
    found: list[Proposal] = []
    for measures in samples:
        source = requirements.source(measures.source)
        if source is not None and measures.rows:
            filled, proposals = _of_source(source, measures, requirements)
            requirements = _with_source(requirements, filled)
            found += proposals
    requirements, proposals = _lateness(requirements, samples)
    found += proposals
    for measures in samples:
        requirements, proposals = _rules(requirements, measures)
        found += proposals
    return requirements, tuple(found)


def share_text(share: float) -> str:
    """A share as a percentage that is 0 or 100 only if it is exact."""
    if share in (0, 1):
        return f"{share * 100:g} %"
    return f"{min(max(share * 100, 0.01), 99.99):.4g} %"


def rows_text(measures: SampleMeasures) -> str:
    """The number of rows of a sample."""
    return f"{measures.rows:,} row{'' if measures.rows == 1 else 's'}"


def _of_source(source: Source, measures: SampleMeasures, requirements: Requirements) -> tuple[Source, list[Proposal]]:
    path = f"sources.{source.name}"
    source, found = _how_to_read(source, measures, path)
    if not source.columns and measures.columns:
        found.append(_schema(path, measures))
        source = replace(source, columns=tuple(column.column for column in measures.columns))
    times = event_times(measures)
    # The log of the database orders its change events.
    if source.event_time is None and measures.inserted is None and len(times) == 1 and _is_time_of(source, times[0]):
        found.append(_event_time(path, times[0], measures))
        source = replace(source, event_time=times[0].name)
    candidates = keys(measures)
    if not source.keys and len(candidates) == 1 and source.column(candidates[0].name):
        found.append(_key(path, candidates[0], measures))
        source = replace(source, keys=(candidates[0].name,))
    sets = key_sets(measures)
    if not source.keys and is_clear_key(measures, sets) and all(source.column(name) for name in sets[0].names):
        found.append(_composite_key(path, sets[0], measures))
        source = replace(source, keys=sets[0].names)
    share = repeated_share(source, measures, requirements)
    if "duplicates" not in source.lines and share:
        found.append(_duplicates(path, share, source, measures))
        source = replace(source, duplicate_share=share)
    return source, found


def _how_to_read(source: Source, measures: SampleMeasures, path: str) -> tuple[Source, list[Proposal]]:
    """The kind of the source, the format of its records, and the options of its reader."""
    found = []
    if source.kind is None and measures.operations is not None:
        found.append(_change_events(f"{path}.kind", SourceKind.CDC.value, measures))
        source = replace(source, kind=SourceKind.CDC)
    elif source.kind is SourceKind.CDC and source.format is None and measures.operations is None:
        figure = f"None of {rows_text(measures)} is an envelope of Debezium (before, after, op)."
        found.append(Proposal(f"{path}.format", measures.format, figure, "guides/change-data-capture"))
        source = replace(source, format=measures.format)
    if source.kind is not SourceKind.FILES:
        return source, found
    if source.format is None:
        files = f"{measures.files_found:,} file{'' if measures.files_found == 1 else 's'}"
        found.append(Proposal(f"{path}.format", measures.format, f"The sample has {files} of it.", "guides/sources"))
        source = replace(source, format=measures.format)
    given = {name.casefold() for name in source.options}
    options = {name: value for name, value in measures.options.items() if name.casefold() not in given}
    found += [Proposal(f"{path}.options.{name}", options[name], _OPTIONS[name], "guides/sources") for name in options]
    return replace(source, options={**source.options, **options}), found


def repeated_share(source: Source, measures: SampleMeasures, requirements: Requirements) -> float:
    """The share of rows that repeat an event, by key or as a whole; zero if there are too few rows, or changes."""
    if measures.rows < LEAST_ROWS or measures.inserted is not None:
        return 0.0
    is_key_of_rows = has_changes(source, requirements)
    repeated = measures.repeated_rows
    if source.keys and not is_key_of_rows:
        key = measures.column(source.keys[0]) if len(source.keys) == 1 else None
        if measures.keys is not None:
            repeated = max(repeated, measures.keys.repeated)
        elif key is not None:
            repeated = max(repeated, measures.rows - key.nulls - key.distinct)
    return float(f"{repeated / measures.rows:.4g}")


def has_changes(source: Source, requirements: Requirements) -> bool:
    """Whether the events of a source are changes of rows, whose keys repeat."""
    if source.is_debezium:
        return True
    roots = [requirements.root(output) for output in requirements.outputs if output.kind in CHANGES]
    return any(root is not None and root.name == source.name for root in roots)


def _is_time_of(source: Source, column: ColumnMeasure) -> bool:
    stated = source.column(column.name)
    return stated is not None and stated.is_time


def _schema(path: str, measures: SampleMeasures) -> Proposal:
    columns = ", ".join(column.column.ddl for column in measures.columns)
    left_out = f" {len(measures.left_out)} columns have no name for a table." if measures.left_out else ""
    figure = f"{len(measures.columns)} columns in {rows_text(measures)}.{left_out}"
    return Proposal(f"{path}.schema", columns, figure, "guides/sources")


def _event_time(path: str, column: ColumnMeasure, measures: SampleMeasures) -> Proposal:
    time = column.time
    if time is None:
        raise ValueError("the column is no time")
    figure = (
        f"{share_text(time.parsed)} of its values are timestamps, {share_text(time.in_order)} of them not before the "
        f"one before, in {rows_text(measures)}."
    )
    return Proposal(f"{path}.event_time", column.name, figure, "guides/watermarks")


def _change_events(path: str, answer: str, measures: SampleMeasures) -> Proposal:
    return Proposal(path, answer, f"{change_events_text(measures)}.", "guides/change-data-capture")


def change_events_text(measures: SampleMeasures) -> str:
    """How many records are change events, by operation."""
    counts = measures.operations or {}
    listed = ", ".join(f"{count:,} {_OPERATIONS[name]}" for name, count in counts.items())
    return f"{sum(counts.values()):,} records are change events of Debezium (before, after, op): {listed}"


def _key(path: str, column: ColumnMeasure, measures: SampleMeasures) -> Proposal:
    figure = (
        f"Distinct in {share_text(column.unique)} of {column.distinct_rows:,} different{_inserted(measures)} rows, and "
        f"never null in {rows_text(measures.key_rows)}."
    )
    return Proposal(f"{path}.keys", column.name, figure, "guides/deduplication")


def _composite_key(path: str, key: ColumnSet, measures: SampleMeasures) -> Proposal:
    figure = (
        f"Unique together in {key.rows:,} different{_inserted(measures)} rows, as no smaller set of columns is. By "
        f"chance, about {key.repeated_by_chance:,.0f} pairs of rows would be equal. A sample proves no key: ask "
        f"whoever makes the records whether it is guaranteed."
    )
    return Proposal(f"{path}.keys", ", ".join(key.names), figure, "guides/deduplication")


def _inserted(measures: SampleMeasures) -> str:
    return "" if measures.inserted is None else " inserted"


def _duplicates(path: str, share: float, source: Source, measures: SampleMeasures) -> Proposal:
    by = f"by {', '.join(source.keys)}" if source.keys else "as a whole"
    figure = (
        f"{share_text(share)} of {rows_text(measures)} repeat a row {by}; {measures.repeated_rows:,} of them are equal "
        f"to a row before."
    )
    return Proposal(f"{path}.duplicates", f"{share:g}", figure, "guides/deduplication")


def _lateness(requirements: Requirements, samples: Sequence[SampleMeasures]) -> tuple[Requirements, list[Proposal]]:
    stated = requirements.lateness
    if stated.within_s is not None or stated.measure_from is not None or not needs_lateness(requirements):
        return requirements, []
    times = [time for measures in samples if (time := time_of(requirements, measures)) is not None]
    known = [time for time in times if time.has_order_of_arrival]
    # If one of the samples does not show it, the delay of the others can be too short.
    if not known or len(known) < len(times):
        return requirements, []
    latest = max(known, key=lambda time: time.lateness.suggested_s or 0)
    delay_s = latest.lateness.suggested_s or 1
    proposal = Proposal("lateness.within", interval(delay_s), lateness_figure(latest), "guides/watermarks")
    return replace(requirements, lateness=replace(stated, within_s=float(delay_s))), [proposal]


def time_of(requirements: Requirements, measures: SampleMeasures) -> TimeMeasure | None:
    """The event time of a source in its sample, if there are enough rows to say how late they are."""
    source = requirements.source(measures.source)
    column = measures.column(source.event_time) if source is not None else None
    if column is None or column.time is None or column.time.lateness.rows < LEAST_ROWS:
        return None
    return column.time


def lateness_figure(time: TimeMeasure) -> str:
    """How late the rows of a sample are, as quantiles."""
    late = time.lateness
    within = ", ".join(f"{share * 100:g} % within {spoken(late.within_s(share))}" for share in SHARES)
    return f"Behind the newest time before them, of {late.rows:,} rows: {within}."


def _rules(requirements: Requirements, measures: SampleMeasures) -> tuple[Requirements, list[Proposal]]:
    """Rules of clean outputs that have none: columns that were never null. Ranges would be invented."""
    found = []
    for output in requirements.outputs:
        source = requirements.root(output)
        if output.kind is not OutputKind.CLEAN or output.rules or source is None or source.name != measures.source:
            continue
        if not _keeps_columns(output, requirements):
            continue
        names = [column.name for column in never_null(measures) if source.column(column.name)]
        rules = {f"{name} is known": f"{name} IS NOT NULL" for name in names}
        if rules:
            outputs = tuple(replace(one, rules=rules) if one is output else one for one in requirements.outputs)
            requirements = replace(requirements, outputs=outputs)
            figure = f"These columns have a value in each of {rows_text(measures)}."
            answer = f"never null: {', '.join(names)}"
            found.append(Proposal(f"outputs.{output.name}.rules", answer, figure, "guides/expectations"))
    return requirements, found


def _keeps_columns(output: Output, requirements: Requirements) -> bool:
    """Whether all columns of the source reach an output under their names; the output has a source."""
    before = requirements.output(output.reads)
    while before is not None:
        if before.kind not in _KEEPING or before.columns:
            return False
        before = requirements.output(before.reads)
    return True


def _with_source(requirements: Requirements, source: Source) -> Requirements:
    sources = tuple(source if one.name == source.name else one for one in requirements.sources)
    return replace(requirements, sources=sources)
