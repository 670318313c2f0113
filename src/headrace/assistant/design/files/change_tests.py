"""Tests of tables that changes are merged into."""

from __future__ import annotations

from headrace.assistant.design.blueprint import Dataset, DatasetKind
from headrace.assistant.design.files.python_text import literal
from headrace.assistant.design.files.sample_records import UNREADABLE, change_event
from headrace.assistant.design.files.sample_rows import sample_columns
from headrace.assistant.design.files.test_rows import GivenRows, constants, ordered_value
from headrace.assistant.design.requirements import Output


def changes_tests(given_rows: GivenRows, dataset: Dataset, output: Output) -> str:
    """The tests of a dataset."""
    if dataset.source.is_debezium:
        return _debezium(given_rows, dataset)
    source = dataset.source
    order = output.sequence_by or source.event_time or ""
    column = given_rows.input(dataset).column(order)
    key = {name: given_rows.row(dataset, 0)[name] for name in dataset.keys}
    rows = {
        name: given_rows.row(dataset, number, **{**key, order: ordered_value(column, place)})
        for number, (name, place) in enumerate((("FIRST", 1), ("NEWEST", 3), ("LATE", 2)))
    }
    if dataset.kind is DatasetKind.SCD1:
        name, check = "a_late_change_does_not_replace_a_newer_one", "len(rows) == 1"
        kept = _kept_column(given_rows, dataset, order)
        more = f'    assert str(rows[0]["{kept}"]) == str(NEWEST["{kept}"])' if kept else ""
    else:
        name, check = "a_late_change_becomes_a_version_in_its_place", "len(rows) == 3"
        more = '    assert [row["__END_AT"] for row in rows].count(None) == 1'
    return f'''"""{dataset.name}: changes are merged in their order, whenever they arrive."""

{constants(**rows)}


def test_{name}(pipeline):
    pipeline.given("{dataset.reads[0]}", [FIRST, NEWEST])
    pipeline.run("{dataset.name}")
    pipeline.given("{dataset.reads[0]}", [LATE, FIRST])

    rows = pipeline.run("{dataset.name}").rows("{dataset.name}")

    assert {check}
{more}
'''


def _kept_column(given_rows: GivenRows, dataset: Dataset, order: str) -> str | None:
    """A text column of the table whose value tells the newest row."""
    taken = {order.casefold(), *(key.casefold() for key in dataset.keys)}
    first, newest = given_rows.row(dataset, 0), given_rows.row(dataset, 1)
    names = [c.name for c in dataset.columns if c.type == "string" and c.name.casefold() not in taken]
    return next((name for name in names if first.get(name) != newest.get(name)), None)


def _debezium(given_rows: GivenRows, dataset: Dataset) -> str:
    source = dataset.source
    bronze = given_rows.blueprint.dataset(given_rows.input(dataset).reads[0])
    samples = sample_columns(source, given_rows.blueprint)
    one, two = samples.row(0), samples.row(1)
    changed = {**two, **{key: one[key] for key in source.keys}}
    other = samples.row(2)
    events = [
        change_event(source, one, 0),
        change_event(source, changed, 1, "u"),
        change_event(source, other, 2),
        change_event(source, other, 3, "d"),
    ]
    given = "\n".join(f'    {{"offset": {n}, "value": {literal(text)}}},' for n, text in enumerate(events))
    left = "1" if dataset.kind is DatasetKind.SCD1 else "3"
    return f'''"""{dataset.name}: the changes of a database, in their order."""

EVENTS = [
{given}
]


def test_an_update_replaces_a_row_and_a_delete_ends_it(pipeline):
    pipeline.given("{bronze.name}", EVENTS[1:3])
    pipeline.run("{dataset.name}")
    pipeline.given("{bronze.name}", [EVENTS[0], EVENTS[3]])

    rows = pipeline.run("{dataset.name}").rows("{dataset.name}")

    assert len(rows) == {left}


def test_a_message_that_cannot_be_read_is_quarantined(pipeline):
    pipeline.given("{bronze.name}", [EVENTS[0], {{"offset": 9, "value": {literal(UNREADABLE)}}}])

    counts = pipeline.run("{dataset.name}").counts("{dataset.name}")

    assert counts.rows_quarantined == 1
'''
