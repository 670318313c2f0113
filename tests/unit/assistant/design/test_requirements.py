"""Requirements files: all problems at once, each with its line and a way on."""

from __future__ import annotations

import textwrap

import fastjsonschema
import pytest
import yaml
from tests.design_matrix import SOURCE_KINDS, parsed, requirements_text
from tests.unit.assistant.design.conftest import EXAMPLES

from headrace.assistant.design.combinations import problems_of_combinations
from headrace.assistant.design.parse import parse_requirements
from headrace.assistant.design.requirement_keys import PARAMETERS, REQUIREMENTS, requirements_schema
from headrace.assistant.design.requirements import ErrorPolicy, OutputKind, SourceKind
from headrace.assistant.design.sample_schema import columns_of_sample
from headrace.errors import PipelineError, Problems


def problems(text):
    with pytest.raises(Problems) as raised:
        parsed(textwrap.dedent(text))
    return [(error.code.partition(".")[2], error.location.line, error.message, error.hint) for error in raised.value]


def test_all_problems_are_reported_with_their_lines_and_the_nearest_key():
    found = problems("""\
        name: shop
        latencie: 5 minutes
        sources:
          - name: events
            kind: kafak
            shema: {a: INT}
            schema: {at: DATETIME, b-c: INT}
            events_per_s: -1
            options: {kafka.sasl.jaas.config: "user and password"}
        outputs:
          - {name: hourly, kind: windows, size: an hour, gap: 5 minutes}
        lateness: {within: 10 minutes, share: 2}
        state: {memory: much}
        history: later
        alerts: https://hooks.example/abc
        """)

    assert [(code, line) for code, line, _, _ in found] == [
        ("UNKNOWN_KEY", 2),
        ("WRONG_VALUE", 5),
        ("UNKNOWN_KEY", 6),
        ("WRONG_VALUE", 7),
        ("WRONG_VALUE", 7),
        ("WRONG_VALUE", 8),
        ("SECRET", 9),
        ("WRONG_VALUE", 11),
        ("WRONG_VALUE", 11),
        ("WRONG_VALUE", 12),
        ("WRONG_VALUE", 13),
        ("WRONG_VALUE", 14),
        ("WRONG_VALUE", 15),
    ]
    hints = " ".join(hint for *_, hint in found)
    assert all(word in hints for word in ('"latency"', '"schema"', "kafka", "sessions", "${secret:scope/key}"))
    assert "user and password" not in str(found)
    assert "hooks.example" not in str(found)


def test_missing_keys_repeated_names_and_unknown_columns_are_reported():
    found = problems("""\
        sources:
          - {name: events, kind: kafka, schema: {id: INT, At: STRING}, event_time: at, keys: [no]}
          - {name: Events, kind: files}
        outputs:
          - {name: class, kind: bronze}
        """)

    texts = [message for _, _, message, _ in found]
    assert [line for _, line, _, _ in found] == [1, 2, 2, 3, 5]
    assert 'key "name" is missing' in texts[0]
    assert any("is a keyword" in text for text in texts)
    assert any("has no column no" in text for text in texts)
    assert any("event time is a TIMESTAMP" in text for text in texts)


@pytest.mark.parametrize("text", ["- a", "name: [", "name: a\nname: b", "name: shop\nsources: {}"])
def test_a_file_of_another_shape_is_reported(text):
    assert problems(text)


def test_values_are_read_in_the_ways_that_people_write_them(requirements):
    found = requirements(
        {"name": "w", "kind": "windows", "size": "1 hour", "slide": "15 minutes"},
        source={"duplicates": "yes", "retention": "7 days", "events_per_s": 0.5},
        lateness="90 seconds",
        state={"memory": "512 MB", "keys": 10},
        history="backfill from s3://bucket/old",
        on_error="dead-letter",
    )

    assert (found.lateness.within_s, found.memory_bytes, found.keys) == (90, 512 << 20, 10)
    assert (found.history.path, found.history.format, found.on_error) == (
        "s3://bucket/old",
        "delta",
        ErrorPolicy.DEAD_LETTER,
    )
    assert (found.sources[0].duplicate_share, found.sources[0].retention_s) == (0.01, 7 * 86400)
    # The only source is read without being named.
    assert (found.outputs[0].reads, found.outputs[0].size_s, found.outputs[0].slide_s) == ("events", 3600, 900)


def test_a_sample_of_records_gives_the_schema():
    text = '{"id": 1, "at": "2025-01-01T10:00:00Z", "price": 2.5, "tags": ["a"]}\n\n{"id": 2, "note": "x"}\n'

    assert [column.ddl for column in columns_of_sample(text, "a.json")] == [
        "at TIMESTAMP",
        "id BIGINT",
        "note STRING",
        "price DOUBLE",
        "tags array<string>",
    ]
    for wrong in ("", "[1]", '{"a": 1}\nno JSON'):
        with pytest.raises(PipelineError) as error:
            columns_of_sample(wrong, "a.json")
        assert error.value.code == "REQUIREMENTS.SAMPLE"


def test_a_sample_is_located_where_it_is_named():
    text = "name: s\nsources:\n  - name: a\n    kind: files\n    sample: no.json\noutputs: [{name: b, kind: bronze}]"

    with pytest.raises(Problems) as raised:
        parse_requirements(text, "r.yml", lambda path: columns_of_sample("", path))

    assert [str(error.location) for error in raised.value] == ["r.yml:5"]


def test_each_kind_in_the_table_of_keys_is_known():
    assert {kind.value for kind in SourceKind} == set(SOURCE_KINDS)
    assert {kind.value for kind in OutputKind} == set(PARAMETERS)
    parameters = set().union(*PARAMETERS.values())
    assert {key.leaf for key in REQUIREMENTS.keys if key.parent == "outputs[]"} == parameters


def test_editors_accept_what_the_parser_accepts():
    check = fastjsonschema.compile(requirements_schema())
    texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.yml"))]
    texts += [requirements_text(kind, ["bronze"], "1 day") for kind in SOURCE_KINDS]

    for text in texts:
        parsed(text)
        check(yaml.safe_load(text))
    with pytest.raises(fastjsonschema.JsonSchemaException):
        check({"name": "a", "sources": [], "outputs": [], "latencie": "1 day"})


SOURCE = """\
    name: shop
    sources:
      - name: events
        kind: {kind}
        schema: {{Id: BIGINT, {column}: TIMESTAMP}}
        keys: [{key}]
        options: {options}
    outputs:
      - {{name: {output}, kind: clean}}
"""


def source_text(kind="kafka", column="at", key="Id", options="{}", output="clean_events"):
    return SOURCE.format(kind=kind, column=column, key=key, options=options, output=output)


@pytest.mark.parametrize(
    ("options", "is_secret"),
    [
        ('{url: "jdbc:postgresql://db/shop?user=me&password=hunter2"}', True),
        ('{url: "jdbc:postgresql://me:hunter2@db/shop"}', True),
        ('{url: "jdbc:postgresql://db/shop?user=me&password=${secret:db/password}"}', False),
        ('{url: "jdbc:postgresql://${secret:db/user}:${secret:db/password}@db/shop"}', False),
        ('{url: "jdbc:postgresql://db:5432/shop"}', False),
    ],
)
def test_a_secret_within_a_value_is_refused_and_not_shown(options, is_secret):
    text = source_text("jdbc", options=options)

    found = problems(text) if is_secret else []

    assert [code for code, *_ in found] == ["SECRET"] * is_secret
    assert "hunter2" not in str(found)
    assert is_secret or parsed(textwrap.dedent(text)).sources[0].options


@pytest.mark.parametrize("output", ["dp", "F", "events_source", "events_bronze", "Events_Reference"])
def test_a_name_that_the_project_needs_itself_is_refused(output):
    assert [code for code, *_ in problems(source_text(output=output))] == ["WRONG_VALUE"]


def test_a_bronze_table_may_have_the_name_that_the_design_would_give_it():
    text = source_text(output="events_bronze").replace("kind: clean", "kind: bronze")

    assert parsed(textwrap.dedent(text)).outputs[0].name == "events_bronze"


@pytest.mark.parametrize("column", ["ingested_at", "_corrupt_record"])
def test_a_column_that_bronze_tables_add_is_refused(column):
    assert [code for code, *_ in problems(source_text(column=column))] == ["WRONG_VALUE"]


def test_names_of_columns_are_spelled_as_the_schema_spells_them():
    assert parsed(textwrap.dedent(source_text(key="ID"))).sources[0].keys == ("Id",)


@pytest.mark.parametrize(
    "output",
    [
        {"kind": "windows", "keys": ["user_id"], "size": "1 hour"},
        {"kind": "dedup", "keys": ["user_id"]},
        {"kind": "scd1", "keys": ["user_id"]},
        {"kind": "join", "from": "others", "with": "slim", "on": ["user_id"], "within": "1 hour"},
        {"kind": "sink", "format": "kafka", "where": "at > '2026-01-01'"},
    ],
)
def test_what_an_output_needs_must_be_among_the_columns_that_it_reads(requirements, output):
    slim = {"name": "slim", "kind": "clean", "from": "events", "columns": ["user_id", "amount"]}
    schema = {"user_id": "STRING", "sent_at": "TIMESTAMP"}
    others = {"name": "others", "kind": "files", "schema": schema, "event_time": "sent_at", "events_per_s": 1}

    def messages(columns):
        reading = {"name": "result", "from": "slim", **output}
        made = requirements({**slim, "columns": columns}, reading, sources=[others])
        return [problem.message for problem in problems_of_combinations(made)]

    assert messages(["user_id", "amount", "at"]) == []
    assert ["at" in message and "slim" in message for message in messages(["user_id", "amount"])] == [True]
