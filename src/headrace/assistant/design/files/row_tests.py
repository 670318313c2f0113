"""Tests of tables whose rows do not wait for others: rules, duplicates, reference data, joins."""

from __future__ import annotations

from headrace.assistant.design.blueprint import Dataset, DatasetKind, added_columns, event_time_read
from headrace.assistant.design.files.python_text import literal
from headrace.assistant.design.files.sample_rows import time_text
from headrace.assistant.design.files.test_rows import GivenRows, constants, given_row
from headrace.assistant.design.requirements import ErrorPolicy, Output


def clean_tests(given_rows: GivenRows, dataset: Dataset, output: Output) -> str:
    """The tests of a dataset."""
    rows = [given_rows.row(dataset, number) for number in range(3)]
    violations = f'f"SELECT count(*) AS n FROM {dataset.name} WHERE NOT coalesce(({{rule}}), false)"'  # noqa: S608 - for the user's own test
    wrong = "rows_dropped" if given_rows.blueprint.requirements.on_error is ErrorPolicy.DROP else "rows_quarantined"
    checks = "\n".join(f"    {literal(rule)}," for rule in output.rules.values())
    fails = given_rows.blueprint.requirements.on_error is ErrorPolicy.FAIL
    given = "ROWS" if fails else "[*ROWS, {}]"
    total = f"counts.rows_written + counts.{wrong} == {3 if fails else 4}"
    return f'''"""{dataset.name}: rows that satisfy each rule."""

RULES = [
{checks}
]
{constants(ROWS=rows)}


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


def dedup_tests(given_rows: GivenRows, dataset: Dataset, _output: Output) -> str:
    """The tests of a dataset."""
    key = dataset.keys[0]
    first, second = given_rows.row(dataset, 0), given_rows.row(dataset, 1)
    return f'''"""{dataset.name}: each event once."""

{constants(EVENT=first, OTHER=second)}


def test_a_repeated_event_is_written_once(pipeline):
    pipeline.given("{dataset.reads[0]}", [EVENT, EVENT])
    pipeline.run("{dataset.name}")
    pipeline.given("{dataset.reads[0]}", [EVENT, OTHER])

    result = pipeline.run("{dataset.name}")

    assert len(result.rows("{dataset.name}")) == 2
    assert len({{row["{key}"] for row in result.rows("{dataset.name}")}}) == 2
'''


def enrich_tests(given_rows: GivenRows, dataset: Dataset, output: Output) -> str:
    """The tests of a dataset."""
    table, keys = given_rows.input(dataset, 1), dataset.keys
    rows = [given_rows.row(dataset, number) for number in (0, 1)]
    known = given_row(table, given_rows.blueprint, 0, **{key: rows[0][key] for key in keys if key in rows[0]})
    added = [
        new for new, column in added_columns(output, given_rows.input(dataset), table).items() if column.name in known
    ]
    new = added[0] if added else None
    check = f'sorted(row["{new}"] is None for row in rows) == [False, True]' if new else "len(rows) == 2"
    schema = {}
    if table.kind is DatasetKind.SCD2:
        # Rows given in place of a table have the columns of its query, which are without the times of versions.
        schema["SCHEMA"] = ", ".join(column.ddl if column.type else f"{column.name} STRING" for column in table.columns)
    reads = f'pipeline.given("{table.name}", [KNOWN]{", schema=SCHEMA" if schema else ""})'
    return f'''"""{dataset.name}: rows with columns of {table.name}."""

{constants(KNOWN=known, ROWS=rows, **schema)}


def test_a_row_without_a_match_is_kept(pipeline):
    {reads}
    pipeline.given("{dataset.reads[0]}", ROWS)

    rows = pipeline.run("{dataset.name}").rows("{dataset.name}")

    assert len(rows) == 2
    assert {check}
'''


def join_tests(given_rows: GivenRows, dataset: Dataset, output: Output) -> str:
    """The tests of a dataset."""
    left, right = given_rows.input(dataset), given_rows.input(dataset, 1)
    at, other_at = event_time_read(dataset, left), right.event_time or ""
    within_s = output.within_s or 1.0
    row = given_rows.row(dataset, 0, 0, **{at: time_text(0.0)})
    same = {key: row[key] for key in dataset.keys if key in row}
    near = given_rows.row(dataset, 0, 1, **{**same, other_at: time_text(within_s / 2)})
    far = given_rows.row(dataset, 1, 1, **{**same, other_at: time_text(2 * within_s)})
    time = next((new for new, c in added_columns(output, left, right).items() if c.name == other_at), other_at)
    return f'''"""{dataset.name}: pairs of events that belong together."""

{constants(ROW=row, NEAR=near, FAR=far)}


def test_events_within_the_time_bound_belong_together(pipeline):
    pipeline.given("{left.name}", [ROW])
    pipeline.given("{right.name}", [FAR, NEAR])

    rows = pipeline.run("{dataset.name}").rows("{dataset.name}")

    found = [row["{time}"].isoformat() for row in rows if row["{time}"] is not None]
    assert found == ["{time_text(within_s / 2).replace("Z", "+00:00")}"]
'''
