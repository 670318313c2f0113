"""Samples of records: what they propose, what they contradict, and what they cannot say."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import yaml
from tests.design_matrix import parsed

from headrace.assistant.design.assumed import Assumed
from headrace.assistant.design.design import make_design
from headrace.assistant.design.questions import open_questions
from headrace.assistant.design.sampling.compare import compare
from headrace.assistant.design.sampling.measure import measure_sample
from headrace.assistant.design.sampling.notes import notes
from headrace.assistant.design.sampling.sample import Sample
from headrace.errors import Problems

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW_S = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
TYPES = {pa.string(): "string", pa.int64(): "long", pa.float64(): "double", pa.bool_(): "boolean"}
SESSIONS = {"name": "sessions", "kind": "sessions", "from": "once", "keys": ["user_id"], "gap": "30 minutes"}
OUTPUTS = (
    {"name": "once", "kind": "dedup", "from": "events"},
    {"name": "good", "kind": "clean", "from": "once"},
    SESSIONS,
)
# Paths of what the sample of `columns` proposes for these outputs.
ALL = [f"sources.events.{key}" for key in ("schema", "event_time", "keys", "duplicates")]
ALL += ["lateness.within", "outputs.good.rules"]


def texts(seconds):
    return [(START + timedelta(seconds=second)).isoformat() for second in seconds]


def columns(rows=2000, late_share=0.02, late_s=100):
    """Events a second apart: some are late, and each hundredth is repeated a few rows later."""
    chance = random.Random(7)
    seconds = [number - (late_s if chance.random() < late_share else 0) for number in range(rows)]
    order = sorted([*range(rows), *range(0, rows, 100)])
    found = {
        "amount": [None if number % 3 else number / 2 for number in range(rows)],
        "event_id": [f"e{number}" for number in range(rows)],
        "happened_at": texts(seconds),
        "user_id": [f"u{number % 50}" for number in range(rows)],
    }
    return {name: [values[number] for number in order] for name, values in found.items()}


def sample(found, types=None, **others):
    table = pa.table(found)
    kinds = {field.name: TYPES.get(field.type, "string") for field in table.schema} | (types or {})
    values = {"files": 1, "files_found": 1, "is_whole": True, "unreadable": 0, **others}
    return Sample("events", "json", types=kinds, table=table, now_s=NOW_S, **values)


def requirements(source=None, outputs=OUTPUTS, **answers):
    document = {
        "name": "shop",
        "sources": [{"name": "events", "kind": "kafka", **(source or {})}],
        "outputs": list(outputs),
        "latency": "1 minute",
        **answers,
    }
    return parsed(yaml.safe_dump(document, sort_keys=False))


def compared(stated, found=None, **others):
    measures = measure_sample(sample(found or columns(), **others), stated.sources[0].keys)
    return measures, *compare(stated, [measures])


def test_a_sample_answers_what_the_requirements_leave_open():
    measures, filled, findings = compared(requirements())

    source = filled.sources[0]
    assert [proposal.path for proposal in findings.proposals] == ALL
    assert (source.event_time, source.keys, source.duplicate_share) == ("happened_at", ("event_id",), 0.009901)
    assert [column.ddl for column in source.columns] == [
        *("amount DOUBLE", "event_id STRING", "happened_at TIMESTAMP", "user_id STRING")
    ]
    assert [question for question in open_questions(filled) if question.is_needed] == []
    assert (measures.repeated_rows, filled.lateness.within_s) == (20, 120)


def test_the_design_shows_what_was_proposed_with_its_figure_and_its_page():
    _, filled, findings = compared(requirements())

    made = make_design(filled, defaults=True, assumed=Assumed(findings=findings))

    shown = {decision.id: decision for decision in made.decisions}
    assert [f"proposed.{path}" in shown for path in ALL] == [True] * len(ALL)
    assert "99.9 % within 1 minute 39 seconds" in shown["proposed.lateness.within"].reason
    assert "proposed from a sample" in shown["watermark"].reason
    assert shown["proposed.sources.events.keys"].page == "guides/deduplication"
    text = made.files["requirements.yml"]
    assert "    keys: [event_id]  # proposed from a sample\n" in text
    assert "guarantee: exactly-once  # default\n" in text
    assert make_design(parsed(text)).blueprint.requirements == made.blueprint.requirements


def test_what_is_stated_is_never_replaced():
    stated = {
        "schema": {"event_id": "STRING", "user_id": "STRING", "at": "TIMESTAMP", "happened_at": "TIMESTAMP"},
        "event_time": "at",
        "keys": ["user_id"],
        "duplicates": "no",
    }
    clean = {**OUTPUTS[1], "rules": {"ours": "user_id <> ''"}}
    before = requirements(stated, (OUTPUTS[0], clean, SESSIONS), lateness="1 second")

    _, filled, findings = compared(before)

    assert (filled, findings.proposals) == (before, ())


def test_contradictions_are_named_with_their_figures():
    stated = {
        "schema": {"event_id": "STRING", "user_id": "BIGINT", "happened_at": "TIMESTAMP", "shop": "STRING"},
        "event_time": "happened_at",
        "keys": ["user_id"],
        "duplicates": "no",
    }

    _, filled, findings = compared(requirements(stated, lateness="30 seconds"))

    found = {one.path.removeprefix("sources.events."): one.figure for one in findings.contradictions}
    assert (
        found
        == {
            "schema.user_id": "the values of user_id are STRING",
            "schema.shop": "none of 2,020 rows has a column shop",
            "schema": "2,020 rows have columns that are not stated: amount",
            "keys": "1,970 of 2,020 rows repeat a key, and 1,950 of these differ from the row before",
            "duplicates": "97.52 % of 2,020 rows repeat a key",
            "lateness.within": found["lateness.within"],
        }
        | {}
    )
    assert "2 minutes would be enough" in found["lateness.within"]
    made = make_design(filled, defaults=True, assumed=Assumed(findings=findings))
    assert "differs.sources.events.keys" in {one.id for one in made.decisions if one.falls_short}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"event_time": "at"}, "none of 2,020 rows has a column at"),
        ({"event_time": "user_id"}, "its values are no timestamps"),
        ({"keys": ["id"]}, "none of 2,020 rows has a column id"),
    ],
)
def test_columns_of_a_sample_must_have_the_stated_event_time_and_key(source, reason):
    with pytest.raises(Problems, match=reason) as raised:
        compared(requirements(source))

    assert [problem.code for problem in raised.value] == ["DESIGN.SAMPLE_DIFFERS"]


def test_keys_of_changes_repeat():
    outputs = [{"name": "users", "kind": "scd1"}]
    stated = {"schema": {"user_id": "STRING", "happened_at": "TIMESTAMP"}, "keys": ["user_id"]}

    _, _, findings = compared(requirements(stated, outputs))

    assert [one for one in findings.contradictions if one.path.endswith("keys")] == []


@pytest.mark.parametrize(
    ("changed", "missing", "note"),
    [
        ({"happened_at": texts(range(2020))}, "within", "no row is late"),
        ({"happened_at": texts(random.Random(1).sample(range(2020), 2020))}, "within", "not in the order"),
        ({"happened_at": [1_767_225_600_000 + number for number in range(2020)]}, "event_time", "milliseconds since"),
        (
            {"happened_at": None, "paid_at": texts(range(2020)), "sent_at": texts(range(2020))},
            "event_time",
            "none of them",
        ),
        ({"event_id": None, "order_id": range(2020), "call_id": range(2020)}, "keys", "none of them clearly is"),
    ],
)
def test_nothing_is_proposed_from_what_a_sample_does_not_show(changed, missing, note):
    found = {name: list(values) for name, values in (columns() | changed).items() if values is not None}

    measures, filled, findings = compared(requirements(), found)

    assert missing not in {proposal.path.rpartition(".")[2] for proposal in findings.proposals}
    assert note in "\n".join(notes(filled, findings, measures))


def test_few_rows_show_neither_keys_nor_lateness_nor_what_is_never_null():
    measures, filled, findings = compared(requirements(), columns(rows=50, late_share=0.2, late_s=3))

    assert [proposal.path.rpartition(".")[2] for proposal in findings.proposals] == ["schema", "event_time"]
    assert "fewer than 100 different rows" in "\n".join(notes(filled, findings, measures))


def test_a_clock_that_is_ahead_does_not_make_other_events_late():
    found = columns()
    found["happened_at"][3] = "2099-01-01T00:00:00+00:00"
    stated = {"event_time": "happened_at"}

    _, filled, findings = compared(requirements(stated), found)

    assert filled.lateness.within_s == 120
    assert ["ahead of the clock" in one.figure for one in findings.contradictions] == [True]


def test_an_arrival_time_is_no_event_time_and_a_few_wrong_values_do_not_hide_one():
    found = columns()
    found["received_at"] = texts(range(2020))
    found["happened_at"][:5] = ["soon"] * 5

    measures, filled, findings = compared(requirements(), found)

    assert (filled.sources[0].event_time, measures.column("happened_at").time.parsed < 1) == ("happened_at", True)
    assert "99.75 % of its values" in findings.by_path["sources.events.event_time"].figure


def test_columns_that_requirements_cannot_have_are_left_out_by_name():
    found = columns() | {"user-id": ["a"] * 2020, "ingested_at": ["a"] * 2020, "geo": [{"c d": 1}] * 2020}
    kinds = {"geo": {"type": "struct", "fields": [{"name": "c d", "type": "long", "nullable": True, "metadata": {}}]}}

    measures, filled, findings = compared(requirements(), found, types=kinds)

    assert measures.left_out == ("user-id", "ingested_at", "geo")
    assert len(filled.sources[0].columns) == 4
    assert "user-id, ingested_at, geo" in "\n".join(notes(filled, findings, measures))


def test_a_sample_without_rows_proposes_nothing():
    measures, filled, findings = compared(requirements(), {"id": pa.array([], pa.string())})

    assert findings.proposals == ()
    assert list(notes(filled, findings, measures)) == ["it has no record that can be read"]
