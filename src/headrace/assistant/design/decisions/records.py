"""What happens to records that are wrong, repeated, old, or of another shape."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.blueprint import Blueprint, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.durations import spoken
from headrace.assistant.design.requirements import ErrorPolicy, Source, SourceKind
from headrace.assistant.design.source_defaults import facts_of

_CHOICES = {
    ErrorPolicy.QUARANTINE: (
        "quarantine: expectations move wrong records to <table>_quarantine",
        "no record is lost, the others are written, and wrong ones can be replayed after a fix",
        "guides/expectations",
    ),
    ErrorPolicy.DROP: (
        "drop: expectations count wrong records and leave them out",
        "the requirements accept that wrong records are lost; their number is in the event log",
        "guides/expectations",
    ),
    ErrorPolicy.FAIL: (
        "fail: the first wrong record fails its flow, and nothing of its batch is written",
        "the requirements prefer no result to a partial one",
        "guides/expectations",
    ),
    ErrorPolicy.DEAD_LETTER: (
        "dead letter: a record that cannot be read is stored with its error and its origin",
        "the stream continues; records that can be read but break a rule are quarantined",
        "guides/dead-letters",
    ),
}
_OTHERS = {
    ErrorPolicy.QUARANTINE: "quarantine: they are stored with a reason, and can be replayed",
    ErrorPolicy.DROP: "drop: simple, and the records are lost",
    ErrorPolicy.FAIL: "fail: nobody overlooks a wrong record, and one of them stops the flow",
    ErrorPolicy.DEAD_LETTER: "dead letters: they are stored with the error of the query",
}


def record_decisions(blueprint: Blueprint) -> Iterator[Decision]:
    """Decisions on wrong, repeated and older records, and on new fields."""
    policy = blueprint.requirements.on_error or ErrorPolicy.QUARANTINE
    choice, reason, page = _CHOICES[policy]
    others = tuple(text for other, text in _OTHERS.items() if other is not policy)
    yield Decision("errors", choice, reason, others, page)
    for bronze in blueprint.of(DatasetKind.BRONZE):
        yield _bronze(bronze.name, bronze.source, implied=bronze.output is None)
        yield _evolution(bronze.source)
    yield from (_debezium(view.source) for view in blueprint.of(DatasetKind.CHANGES))
    yield from _duplicates(blueprint)
    yield from _retention(blueprint)
    yield from _history(blueprint)


def _bronze(name: str, source: Source, *, implied: bool) -> Decision:
    kept = "with the bytes as they came" if facts_of(source).payload else "as it came"
    added = "; it is added, because outputs read the source" if implied else ""
    return Decision(
        f"bronze.{source.name}",
        f"{name} stores each record once, {kept}",
        f"a source forgets its records, and a mistake in a later step is mended from this table{added}",
        ("no bronze table: a change of a later step reads the source again, as far as it still has the records",),
        "medallion-architecture/layer-specifications",
    )


def _evolution(source: Source) -> Decision:
    where = "in the column raw" if facts_of(source).payload else "in the source"
    return Decision(
        f"schema.{source.name}",
        "the columns of the requirements; a new field does not change them",
        f"results do not change by themselves; the values of a new field are {where} until a column is added for it",
        ("schema inference with evolution: new fields become columns, and wrong types may too",),
        "guides/schema-evolution",
    )


def _debezium(source: Source) -> Decision:
    return Decision(
        f"debezium.{source.name}",
        "numbers in columns of times are microseconds, text in decimals is base64",
        "these are the defaults of Debezium's connectors; other settings of the connector need other arguments",
        ("`timestamps` and `decimals` of dp.debezium in transformations/silver.py, as the connector is set",),
        "guides/change-data-capture",
    )


def _duplicates(blueprint: Blueprint) -> Iterator[Decision]:
    removed = {dataset.source.name for dataset in blueprint.of(DatasetKind.DEDUP)}
    merged = {dataset.source.name for dataset in blueprint.of(DatasetKind.SCD1, DatasetKind.SCD2)}
    for source in blueprint.requirements.sources:
        if not source.duplicate_share and source.name not in removed:
            continue
        if source.name in removed:
            choice, short = "duplicates are removed by key, within the delay of the watermark", False
            reason = "of two events with the same key within that time, the first one is kept"
        elif source.name in merged:
            choice, short = "a repeated change event changes nothing", False
            reason = "changes are merged by key and order"
        else:
            choice, short = "duplicates of the source are kept", True
            reason = "no output removes them; Headrace itself adds none"
        yield Decision(
            f"duplicates.{source.name}",
            choice,
            reason,
            ("an output of the kind dedup: state for each key", "an output of the kind scd1: the newest row of a key"),
            "guides/deduplication",
            falls_short=short,
        )


def _retention(blueprint: Blueprint) -> Iterator[Decision]:
    for source in blueprint.requirements.sources:
        kept_s = source.retention_s or facts_of(source).retention_s
        if kept_s is None:
            continue
        given = "" if source.retention_s else ", the default of its kind"
        yield Decision(
            f"retention.{source.name}",
            f"{source.name} keeps records for {spoken(kept_s)}{given}",
            "an outage of the pipeline may last that long; a longer one loses records, and the flow then says so",
            ("a longer retention in the source", "a copy of the records in files"),
            "guides/sources",
        )


def _history(blueprint: Blueprint) -> Iterator[Decision]:
    history = blueprint.requirements.history
    if history is None or history.path is None:
        return
    first = blueprint.requirements.sources[0]
    how = "headrace backfill" if first.kind in (SourceKind.FILES, SourceKind.DELTA) else "a flow that runs once"
    yield Decision(
        "history",
        f"older records of {first.name} are read once, from {history.path}",
        "a stream would read years of records in small batches; a batch reads them at once, and the stream goes on",
        (f"{how} over the source itself, if it still has the records",),
        "guides/backfill",
    )
