"""Tests of the datasets above bronze: rows are given to what they read, so only their own flow runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind, added_columns, event_time_read
from headrace.assistant.design.files.python_text import literal
from headrace.assistant.design.files.sample_records import UNREADABLE, change_event
from headrace.assistant.design.files.sample_rows import Row, sample_columns, time_text
from headrace.assistant.design.files.sink_code import DELIVERED
from headrace.assistant.design.files.test_rows import aligned_s, given_row, ordered_value, row_text
from headrace.assistant.design.requirements import ErrorPolicy, Output


class TableTests:
    """Renders the tests of the datasets of one design.

    Args:
        blueprint: the datasets.
        delay_s: the delay of watermarks, in seconds.
    """

    def __init__(self, blueprint: Blueprint, delay_s: float) -> None:
        self._blueprint = blueprint
        self._delay_s = delay_s
        self._renderers: dict[DatasetKind, Callable[[Dataset, Output], str]] = {
            DatasetKind.CLEAN: self._clean,
            DatasetKind.DEDUP: self._dedup,
            DatasetKind.ENRICH: self._enrich,
            DatasetKind.WINDOWS: self._windows,
            DatasetKind.SESSIONS: self._sessions,
            DatasetKind.JOIN: self._join,
            DatasetKind.SCD1: self._changes,
            DatasetKind.SCD2: self._changes,
            DatasetKind.SINK: self._sink,
        }

    def text(self, dataset: Dataset) -> str:
        """The module with the tests of a dataset."""
        if dataset.output is None:
            raise ValueError(f"{dataset.name} is no output")
        return self._renderers[dataset.kind](dataset, dataset.output)

    def _input(self, dataset: Dataset, position: int = 0) -> Dataset:
        return self._blueprint.dataset(dataset.reads[position])

    def _row(self, dataset: Dataset, number: int, position: int = 0, **values: Any) -> Row:
        return given_row(self._input(dataset, position), self._blueprint, number, **values)

    def _clean(self, dataset: Dataset, output: Output) -> str:
        rows = [self._row(dataset, number) for number in range(3)]
        violations = f'f"SELECT count(*) AS n FROM {dataset.name} WHERE NOT coalesce(({{rule}}), false)"'  # noqa: S608 - for the user's own test
        wrong = "rows_dropped" if self._blueprint.requirements.on_error is ErrorPolicy.DROP else "rows_quarantined"
        checks = "\n".join(f"    {literal(rule)}," for rule in output.rules.values())
        fails = self._blueprint.requirements.on_error is ErrorPolicy.FAIL
        given = "ROWS" if fails else "[*ROWS, {}]"
        total = f"counts.rows_written + counts.{wrong} == {3 if fails else 4}"
        return f'''"""{dataset.name}: rows that satisfy each rule."""

RULES = [
{checks}
]
{_constants(ROWS=rows)}


def test_a_row_is_written_or_set_apart(pipeline):
    pipeline.given("{dataset.reads[0]}", {given})

    counts = pipeline.run("{dataset.name}").counts("{dataset.name}")

    assert {total}


def test_no_row_of_the_table_violates_a_rule(pipeline):
    pipeline.given("{dataset.reads[0]}", {given})
    pipeline.run("{dataset.name}")

    for rule in RULES:
        found = pipeline.sql({violations})
        assert found.to_json() == [{{"n": 0}}]
'''

    def _dedup(self, dataset: Dataset, _output: Output) -> str:
        key = dataset.keys[0]
        first, second = self._row(dataset, 0), self._row(dataset, 1)
        return f'''"""{dataset.name}: each event once."""

{_constants(EVENT=first, OTHER=second)}


def test_a_repeated_event_is_written_once(pipeline):
    pipeline.given("{dataset.reads[0]}", [EVENT, EVENT])
    pipeline.run("{dataset.name}")
    pipeline.given("{dataset.reads[0]}", [EVENT, OTHER])

    result = pipeline.run("{dataset.name}")

    assert len(result.rows("{dataset.name}")) == 2
    assert len({{row["{key}"] for row in result.rows("{dataset.name}")}}) == 2
'''

    def _enrich(self, dataset: Dataset, output: Output) -> str:
        table, keys = self._input(dataset, 1), dataset.keys
        rows = [self._row(dataset, number) for number in (0, 1)]
        known = given_row(table, self._blueprint, 0, **{key: rows[0][key] for key in keys if key in rows[0]})
        added = [
            new for new, column in added_columns(output, self._input(dataset), table).items() if column.name in known
        ]
        new = added[0] if added else None
        check = f'sorted(row["{new}"] is None for row in rows) == [False, True]' if new else "len(rows) == 2"
        reads = f'pipeline.given("{table.name}", [KNOWN])'
        return f'''"""{dataset.name}: rows with columns of {table.name}."""

{_constants(KNOWN=known, ROWS=rows)}


def test_a_row_without_a_match_is_kept(pipeline):
    {reads}
    pipeline.given("{dataset.reads[0]}", ROWS)

    rows = pipeline.run("{dataset.name}").rows("{dataset.name}")

    assert len(rows) == 2
    assert {check}
'''

    def _windows(self, dataset: Dataset, output: Output) -> str:
        size_s = output.size_s or 1.0
        base_s = aligned_s(size_s)
        times = {
            "FIRST": [base_s, base_s + size_s],
            "SECOND": [base_s + size_s / 4, base_s + size_s + 2 * (self._delay_s + size_s)],
            "TOO_LATE": [base_s + size_s / 3],
        }
        title = f"{dataset.name}: a window counts the events that arrive before the watermark passes its end"
        start = time_text(base_s).replace("Z", "+00:00")
        return self._late_test(dataset, times, title, "window_start", start)

    def _sessions(self, dataset: Dataset, output: Output) -> str:
        gap_s = output.gap_s or 1.0
        times = {
            "FIRST": [0.0, gap_s / 2],
            "SECOND": [gap_s / 4, 3 * gap_s + 2 * (self._delay_s + gap_s)],
            "TOO_LATE": [gap_s / 3],
        }
        title = f"{dataset.name}: a session counts the events that arrive before the watermark passes its end"
        return self._late_test(dataset, times, title, "session_start", time_text(0.0).replace("Z", "+00:00"))

    def _late_test(self, dataset: Dataset, times: dict[str, list[float]], title: str, column: str, start: str) -> str:
        """Late events count, later ones do not; a materialized view counts all."""
        first = self._input(dataset)
        at = event_time_read(dataset, first)
        same = {key: self._row(dataset, 0)[key] for key in dataset.keys if key in self._row(dataset, 0)}
        rows, number = {}, 0
        for name, seconds in times.items():
            rows[name] = []
            for second in seconds:
                rows[name].append(self._row(dataset, number, **{**same, at: time_text(second)}))
                number += 1
        name, read = dataset.name, dataset.reads[0]
        head = f'''"""{title}."""

from datetime import datetime

START = datetime.fromisoformat("{start}")
{_constants(**rows)}


def result_at_start(rows):
    return [row for row in rows if row["{column}"] == START]
'''
        if not dataset.is_stream:
            return f"""{head}

def test_a_late_event_counts(pipeline):
    pipeline.given("{read}", FIRST, SECOND)
    before = pipeline.run("{name}").rows("{name}")
    pipeline.given("{read}", TOO_LATE)

    after = pipeline.run("{name}").rows("{name}")

    assert len(result_at_start(before)) == len(result_at_start(after)) == 1
    assert after == pipeline.recomputed("{name}")
"""
        return f"""{head}

def test_a_late_event_counts_until_the_watermark_has_passed(pipeline):
    pipeline.given("{read}", FIRST)
    pipeline.run("{name}")
    assert result_at_start(pipeline.rows("{name}")) == []
    pipeline.given("{read}", SECOND)
    pipeline.run("{name}")

    found = result_at_start(pipeline.rows("{name}"))
    assert len(found) == 1
    assert found == result_at_start(pipeline.recomputed("{name}"))

    pipeline.given("{read}", TOO_LATE)
    pipeline.run("{name}")

    assert result_at_start(pipeline.rows("{name}")) == found
"""

    def _join(self, dataset: Dataset, output: Output) -> str:
        left, right = self._input(dataset), self._input(dataset, 1)
        at, other_at = event_time_read(dataset, left), right.event_time or ""
        within_s = output.within_s or 1.0
        row = self._row(dataset, 0, **{at: time_text(0.0)})
        same = {key: row[key] for key in dataset.keys if key in row}
        near = self._row(dataset, 0, 1, **{**same, other_at: time_text(within_s / 2)})
        far = self._row(dataset, 1, 1, **{**same, other_at: time_text(2 * within_s)})
        time = next((new for new, c in added_columns(output, left, right).items() if c.name == other_at), other_at)
        return f'''"""{dataset.name}: pairs of events that belong together."""

{_constants(ROW=row, NEAR=near, FAR=far)}


def test_events_within_the_time_bound_belong_together(pipeline):
    pipeline.given("{left.name}", [ROW])
    pipeline.given("{right.name}", [FAR, NEAR])

    rows = pipeline.run("{dataset.name}").rows("{dataset.name}")

    found = [row["{time}"].isoformat() for row in rows if row["{time}"] is not None]
    assert found == ["{time_text(within_s / 2).replace("Z", "+00:00")}"]
'''

    def _changes(self, dataset: Dataset, output: Output) -> str:
        if dataset.source.is_debezium:
            return self._debezium(dataset)
        source = dataset.source
        order = output.sequence_by or source.event_time or ""
        column = self._input(dataset).column(order)
        key = {name: self._row(dataset, 0)[name] for name in dataset.keys}
        rows = {
            name: self._row(dataset, number, **{**key, order: ordered_value(column, place)})
            for number, (name, place) in enumerate((("FIRST", 1), ("NEWEST", 3), ("LATE", 2)))
        }
        if dataset.kind is DatasetKind.SCD1:
            name, check = "a_late_change_does_not_replace_a_newer_one", "len(rows) == 1"
            kept = self._kept_column(dataset, order)
            more = f'    assert str(rows[0]["{kept}"]) == str(NEWEST["{kept}"])' if kept else ""
        else:
            name, check = "a_late_change_becomes_a_version_in_its_place", "len(rows) == 3"
            more = '    assert [row["__END_AT"] for row in rows].count(None) == 1'
        return f'''"""{dataset.name}: changes are merged in their order, whenever they arrive."""

{_constants(**rows)}


def test_{name}(pipeline):
    pipeline.given("{dataset.reads[0]}", [FIRST, NEWEST])
    pipeline.run("{dataset.name}")
    pipeline.given("{dataset.reads[0]}", [LATE, FIRST])

    rows = pipeline.run("{dataset.name}").rows("{dataset.name}")

    assert {check}
{more}
'''

    def _kept_column(self, dataset: Dataset, order: str) -> str | None:
        """A text column of the table whose value tells the newest row."""
        taken = {order.casefold(), *(key.casefold() for key in dataset.keys)}
        first, newest = self._row(dataset, 0), self._row(dataset, 1)
        names = [c.name for c in dataset.columns if c.type == "string" and c.name.casefold() not in taken]
        return next((name for name in names if first.get(name) != newest.get(name)), None)

    def _debezium(self, dataset: Dataset) -> str:
        source = dataset.source
        bronze = self._blueprint.dataset(self._input(dataset).reads[0])
        samples = sample_columns(source, self._blueprint)
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

    def _sink(self, dataset: Dataset, output: Output) -> str:
        read = dataset.reads[0]
        if dataset.is_real_time:
            rows: list[Any] = [{"key": b"a", "value": b"{}"}, {"key": b"b", "value": b"{}"}]
            rows = self._messages(dataset)
        else:
            rows = [self._row(dataset, number) for number in range(3)]
        if dataset.is_real_time or not output.where:
            count = f"expected = {len(rows)}"
        else:
            # The condition was parsed: it is one expression.
            query = f"SELECT count(*) AS n FROM {read} WHERE {output.where}"  # noqa: S608 - for the user's own test
            count = f'expected = pipeline.sql({literal(query)}).to_json()[0]["n"]'
        return f'''"""{dataset.name}: each new row is delivered once."""

import pytest

from headrace.testing import Crashed

{_constants(ROWS=rows)}


def delivered(pipeline):
    files = sorted((pipeline.folder / "{DELIVERED}/{dataset.name}").glob("*.json"))
    return [line for file in files for line in file.open()]


def test_each_row_is_delivered_once(pipeline):
    pipeline.given("{read}", ROWS)
    pipeline.run("{dataset.name}")
    {count}
    assert len(delivered(pipeline)) == expected

    pipeline.run("{dataset.name}")

    assert len(delivered(pipeline)) == expected


@pytest.mark.parametrize("failpoint", ["staged", "published", "counted"])
def test_a_crash_repeats_no_delivery(pipeline, failpoint):
    pipeline.given("{read}", ROWS)
    with pytest.raises(Crashed):
        pipeline.crash_at(failpoint).run("{dataset.name}")

    pipeline.restart().run("{dataset.name}")

    {count}
    assert len(delivered(pipeline)) == expected
'''

    def _messages(self, dataset: Dataset) -> list[Any]:
        samples = sample_columns(dataset.source, self._blueprint)
        return [{"key": None, "value": literal(samples.row(number)).encode()} for number in range(2)]


def _constants(**values: Any) -> str:
    return "\n".join(f"{name} = {_constant(value)}" for name, value in values.items())


def _constant(value: Any) -> str:
    if isinstance(value, list):
        return "[\n" + "".join(f"    {row_text(row)},\n" for row in value) + "]"
    return row_text(value, 0)
