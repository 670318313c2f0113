"""Samples of records: what they propose, what they contradict, and what they cannot say."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
import yaml
from tests.design_matrix import parsed

from headrace.assistant.design.assumed import Assumed
from headrace.assistant.design.design import make_design
from headrace.assistant.design.questions import open_questions
from headrace.assistant.design.sampling.change_events import with_changes
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


def test_a_stated_event_time_whose_values_are_texts_in_files_with_types_is_refused():
    with pytest.raises(Problems, match="its values are texts in the files"):
        compared(requirements({"event_time": "happened_at"}), keeps_types=True)


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


def readings(devices=20, each=100, **others):
    """Rows of devices whose numbers count up; no column is unique alone."""
    numbers = [(device, number) for number in range(each) for device in range(devices)]
    return {
        "device_id": [f"d{device}" for device, _ in numbers],
        "seq": [number for _, number in numbers],
        "level": [(device * 7 + number) % 5 for device, number in numbers],
        **others,
    }


def test_the_smallest_set_of_columns_that_is_unique_is_proposed_as_key():
    measures, filled, findings = compared(requirements(), readings())

    assert filled.sources[0].keys == ("device_id", "seq")
    assert [one.names for one in measures.unique_sets] == [("device_id", "seq")]
    proposal = findings.by_path["sources.events.keys"]
    assert ("2,000 different rows" in proposal.figure, "proves no key" in proposal.figure) == (True, True)
    assert proposal.page == "guides/deduplication"


def test_three_columns_can_be_a_key_and_times_are_part_of_one_only_if_nothing_else_is():
    rows = readings()
    rows["line"] = [number // 10 for number in rows["seq"]]
    rows["seq"] = [number % 10 for number in rows["seq"]]
    _, of_three, _ = compared(requirements(), rows)
    with_times = readings(happened_at=texts([row // 20 for row in range(2000)]))
    _, without_time, _ = compared(requirements(), with_times)
    del with_times["seq"]
    _, with_time, _ = compared(requirements(), with_times)

    assert set(of_three.sources[0].keys) == {"device_id", "line", "seq"}
    assert (without_time.sources[0].keys, with_time.sources[0].keys) == (
        ("device_id", "seq"),
        ("device_id", "happened_at"),
    )


@pytest.mark.parametrize(
    ("found", "note"),
    [
        # Two sets are unique, and nothing says which one is the key.
        (readings() | {"row_no": readings()["seq"]}, "together these are: device_id, seq; device_id, row_no"),
        # Nearly each row has values of its own, which shows nothing about pairs of columns.
        ({"a": [*range(1999), 0], "b": [*range(1999), 1]}, "no column can be it"),
        # The smallest unique set is one column, whose name is none of a key.
        (readings() | {"n": list(range(2000))}, "no column can be it"),
        # The names are none of a key.
        ({"x": readings()["device_id"], "y": readings()["seq"]}, "together these are: x, y"),
    ],
)
def test_sets_of_columns_that_show_no_key_are_noted_and_not_proposed(found, note):
    measures, filled, findings = compared(requirements(), found)

    assert filled.sources[0].keys == ()
    assert f"key: {note}" in "\n".join(notes(filled, findings, measures)).replace("no column is unique, but ", "")


def struct(types):
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in types.items()]
    return {"type": "struct", "fields": fields}


def envelopes(*, wrapped=False):
    """Debezium's messages: 150 rows of a snapshot, each changed three times, and ten deletes."""
    row = pa.struct([("user_id", pa.int64()), ("city", pa.string()), ("changed_at", pa.int64())])
    images = [
        {"user_id": user, "city": f"c{change}", "changed_at": 1_767_225_600_000_000 + user}
        for change in range(4)
        for user in range(150)
    ]
    before = [None if number < 150 else images[number - 150] for number in range(600)] + images[590:]
    after = [*images, *[None] * 10]
    columns = {
        "before": pa.array(before, row),
        "after": pa.array(after, row),
        "op": pa.array(["r"] * 150 + ["u"] * 450 + ["d"] * 10),
        "ts_ms": pa.array(range(610)),
    }
    kind = struct({"user_id": "long", "city": "string", "changed_at": "long"})
    types = {"before": kind, "after": kind, "op": "string", "ts_ms": "long"}
    if not wrapped:
        return columns, types
    payload = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return {"payload": payload}, {"payload": struct(types)}


def compared_changes(source, *, wrapped=False, found=None):
    columns, types = found or envelopes(wrapped=wrapped)
    stated = requirements(source, [{"name": "users", "kind": "scd2"}])
    if not source:
        stated = replace(stated, sources=(replace(stated.sources[0], kind=None),))
    measures = measure_sample(with_changes(stated.sources[0], sample(columns, types)), stated.sources[0].keys)
    return measures, *compare(stated, [measures])


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("source", [{}, {"kind": "cdc"}])
def test_messages_of_debezium_are_rows_of_the_table_that_changes(source, wrapped):
    measures, filled, findings = compared_changes(source, wrapped=wrapped)

    found = filled.sources[0]
    assert (found.is_debezium, found.keys, found.event_time) == (True, ("user_id",), None)
    assert [column.ddl for column in found.columns] == ["user_id BIGINT", "city STRING", "changed_at BIGINT"]
    assert measures.operations == {"r": 150, "u": 450, "d": 10}
    assert "150 different inserted rows" in findings.by_path["sources.events.keys"].figure
    assert ("sources.events.kind" in findings.by_path) == (not source)
    assert "sources.events.duplicates" not in findings.by_path
    assert "microseconds since 1970, which dp.debezium converts" in "\n".join(notes(filled, findings, measures))


def test_a_stated_kind_that_is_not_that_of_the_messages_is_named():
    _, kept, of_kafka = compared_changes({"kind": "kafka"})
    rows = (readings(), {"device_id": "string", "seq": "long", "level": "long"})
    _, flat, of_rows = compared_changes({"kind": "cdc"}, found=rows)
    _, _, stated = compared_changes({"kind": "cdc", "format": "debezium"}, found=rows)

    (differs,) = [one for one in of_kafka.contradictions if one.path == "sources.events.kind"]
    assert (kept.sources[0].kind.value, differs.page) == ("kafka", "guides/change-data-capture")
    assert "610 records are change events of Debezium" in differs.figure
    assert (flat.sources[0].format, of_rows.by_path["sources.events.format"].answer) == ("json", "json")
    assert [one.path for one in stated.contradictions] == ["sources.events.format"]


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
