"""Edits: what they write is what the next reader of the file reads, and nothing else changes."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.assistant.doctor.edits import removed_setting, settings_edit
from headrace.assistant.doctor.facts import ProgramFile
from headrace.assistant.doctor.programs import watermarks
from headrace.assistant.doctor.remedies import seconds_of
from headrace.assistant.doctor.stream_readers import stream_readers

NAMES = st.sampled_from(["name", "spark_conf", "configuration", "spark.driver.memory", "pipelines.trigger.interval"])
SCALARS = st.sampled_from(["4g", "10 seconds", "quarantine", "300", "a: b", "true", "x # y"])
TREES = st.dictionaries(NAMES, SCALARS | st.dictionaries(NAMES, SCALARS, min_size=1), min_size=1)


def at(document, path):
    for name in path:
        document = document[name]
    return document


@given(TREES, st.lists(NAMES, min_size=1, max_size=2), SCALARS, st.sampled_from([None, False]))
def test_an_edit_sets_a_value_and_keeps_all_others(tree, path, value, flow_style):
    content = yaml.safe_dump(tree, default_flow_style=flow_style)

    edit = settings_edit("pipeline.yml", content, path, value)

    if edit is None:
        # A mapping is no place for a scalar, nor the other way around.
        assert not isinstance(tree[path[0]], str) or len(path) > 1 or "\n" in content
        return
    changed = yaml.safe_load(edit.applied_to(content))
    assert str(at(changed, path)) in (value, str(yaml.safe_load(value)))
    if len(path) == 2:
        changed[path[0]].pop(path[1])
        before = dict(tree.get(path[0], {}))
        before.pop(path[1], None)
        assert changed.pop(path[0]) == before
    else:
        changed.pop(path[0])
    assert changed == {name: known for name, known in tree.items() if name != path[0]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("name: a\n", "name: a\nspark_conf:\n  spark.driver.memory: 4g\n"),
        ("name: a\nspark_conf:\n", "name: a\nspark_conf:\n  spark.driver.memory: 4g\n"),
        ("spark_conf: {a: b}  # ours\n", "spark_conf: {spark.driver.memory: 4g, a: b}  # ours\n"),
        ("spark_conf:\n    a: b\nname: a\n", "spark_conf:\n    spark.driver.memory: 4g\n    a: b\nname: a\n"),
        ("spark_conf:\n  spark.driver.memory: 1g # small\n", "spark_conf:\n  spark.driver.memory: 4g # small\n"),
        ("profiles:\n  p:\n    spark_conf: {}\n", "profiles:\n  p:\n    spark_conf: {spark.driver.memory: 4g}\n"),
    ],
)
def test_an_edit_keeps_the_form_of_the_file(content, expected):
    edit = settings_edit("pipeline.yml", content, ("spark_conf", "spark.driver.memory"), "4g", profile="p")

    assert edit.applied_to(content) == expected


def test_a_file_that_is_no_yaml_has_no_edit():
    assert settings_edit("pipeline.json", "{}", ("storage",), "s") is None
    assert settings_edit("pipeline.yml", "a: [", ("storage",), "s") is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(
            "profiles: {q: {spark_conf: &a {x: y}}}\nspark_conf: *a\n", id="a mapping that two settings share"
        ),
        pytest.param("name: a\n...\n", id="a document that has ended"),
    ],
)
def test_an_edit_that_would_change_more_or_nothing_is_not_made(content):
    assert settings_edit("pipeline.yml", content, ("spark_conf", "spark.driver.memory"), "4g") is None


def test_the_name_of_an_expectation_is_not_that_of_the_dataset():
    named = PROGRAM.replace('"sales.größe")\n', '"sales.größe")\n@dp.expect(name="known", inv="id > 0")\n')

    first = next(watermarks([ProgramFile("a.py", named.replace('(name="sales.größe")', '(comment="x")'))]))

    assert first.dataset == "one"


def test_a_setting_with_a_line_of_its_own_can_be_removed():
    content = "spark_conf:\n  a: b\n  c: d\nother: {a: b}\n"

    assert removed_setting("pipeline.yml", content, ("spark_conf", "a")).applied_to(content) == (
        "spark_conf:\n  c: d\nother: {a: b}\n"
    )
    assert removed_setting("pipeline.yml", content, ("other", "a")) is None


PROGRAM = """\
@dp.table(name="sales.größe")
def one():
    größe = spark.readStream.format("kafka").option("subscribe", "ö").load().withWatermark("zeit", "1 hour")
    return größe


@dp.append_flow(target="two")
def flow():
    return (
        spark.readStream.schema(SCHEMA)
        .json("landing")
        .withWatermark(
            "at", "5 minutes"
        )
    )
"""
FILE = ProgramFile("a.py", PROGRAM)


def test_edits_of_programs_count_characters_and_find_calls_on_several_lines():
    (first, second), (topic, files) = watermarks([FILE]), stream_readers([FILE])

    assert [(one.dataset, one.column, one.delay) for one in (first, second)] == [
        ("sales.größe", "zeit", "1 hour"),
        ("two", "at", "5 minutes"),
    ]
    assert [(one.dataset, one.format, one.missing_limit) for one in (topic, files)] == [
        ("sales.größe", "kafka", "maxOffsetsPerTrigger"),
        ("two", "json", "maxFilesPerTrigger"),
    ]
    assert '"ö").option("maxOffsetsPerTrigger", 9).load()' in topic.with_option("maxOffsetsPerTrigger", "9").text
    assert first.with_delay("2 hours").text.endswith('.withWatermark("zeit", "2 hours")')
    assert second.with_delay("2 hours").text == '            "at", "2 hours"'
    assert second.after("filter(x)").text == "        .filter(x).withWatermark("


SQL = """\
-- The orders; with "names" in quotes.
CREATE OR REFRESH STREAMING TABLE shop.orders (CONSTRAINT known EXPECT (id IS NOT NULL))
AS SELECT * FROM STREAM read_kafka(bootstrapServers => 'größe:9092', subscribe => 'orders');

CREATE FLOW later AS INSERT INTO ONCE clicks BY NAME
SELECT * FROM STREAM(read_files('landing', format => 'json',
  schemaEvolutionMode => 'failOnNewColumns', maxFilesPerTrigger => 10));
CREATE MATERIALIZED VIEW whole AS SELECT * FROM read_files('landing', format => 'json');
"""


def test_edits_of_sql_files_change_the_arguments_of_a_reader():
    topic, files = stream_readers([ProgramFile("a.sql", SQL)])

    assert [(one.dataset, one.format, one.line) for one in (topic, files)] == [
        ("shop.orders", "kafka", 3),
        ("clicks", "cloudfiles", 6),
    ]
    assert (topic.missing_limit, files.limit, files.missing_limit) == (
        "maxOffsetsPerTrigger",
        "maxfilespertrigger",
        None,
    )
    limited = topic.with_option("maxOffsetsPerTrigger", "300").applied_to(SQL)
    assert "subscribe => 'orders', maxOffsetsPerTrigger => 300);\n\nCREATE FLOW" in limited
    evolving = files.with_option("cloudFiles.schemaEvolutionMode", files.literal("addNewColumns")).applied_to(SQL)
    assert evolving == SQL.replace("failOnNewColumns", "addNewColumns")
    assert files.with_option("failOnDataLoss", "'true'").text.endswith("=> 10, failOnDataLoss => 'true'));")


def notebook(*cells):
    made = [{"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)} for kind, text in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", f"# Databricks notebook source\n%pip install x\n\n# COMMAND ----------\n\n{PROGRAM}"),
        ("a.ipynb", notebook(("markdown", "# Sales\n"), ("code", "%pip install x\nimport y\n"), ("code", PROGRAM))),
    ],
)
def test_edits_of_notebooks_name_lines_of_their_files(name, text):
    file = ProgramFile(name, text)
    edit = next(stream_readers([file])).with_option("maxOffsetsPerTrigger", "9")

    changed = edit.applied_to(text)

    expected = PROGRAM.replace('"ö").load', '"ö").option("maxOffsetsPerTrigger", 9).load')
    if name.endswith(".py"):
        assert changed == text.replace(PROGRAM, expected)
    else:
        before, after = json.loads(text)["cells"], json.loads(changed)["cells"]
        assert "".join(after[2]["source"]) == expected
        assert (after[:2], changed.count("\n")) == (before[:2], text.count("\n"))
    assert [one.dataset for one in watermarks([file])] == ["sales.größe", "two"]


def test_a_notebook_whose_lines_share_a_line_of_the_file_has_no_edits():
    text = json.dumps(json.loads(notebook(("code", PROGRAM))))

    assert list(stream_readers([ProgramFile("a.ipynb", text)])) == []


PATTERNS = """\
@dp.table
def per_shop():
    events = spark.readStream.table("once")
    return windowed(
        events,
        ["shop"],
        "placed_at",
        "1 minute",
        F.expr("count(*)").alias("events"),
        delay="1 minute",
    )


@dp.table
def once():
    rows = spark.readStream.table("raw").select("id", "at")
    return deduplicate(rows, ["id"], at="at", within="2 minutes")


@dp.table
def alike():
    return sessionize(spark.readStream.table("once").withWatermark("at", "5 minutes"), "id", "at", "1 hour")
"""


@pytest.mark.parametrize(
    ("delay", "seconds"), [("2 days", 172_800), ("1 hour 30 minutes", 5400), ("an hour", None), ("1 hour 30", None)]
)
def test_delays_can_have_several_units(delay, seconds):
    assert seconds_of(delay) == seconds


def test_functions_of_patterns_with_a_delay_are_watermarks():
    windows, once, alike = watermarks([ProgramFile("a.py", PATTERNS)])

    assert [(one.dataset, one.column, one.delay) for one in (windows, once, alike)] == [
        ("per_shop", "placed_at", "1 minute"),
        ("once", "at", "2 minutes"),
        ("alike", "at", "5 minutes"),
    ]
    assert windows.with_delay("1 hour").text == '        delay="1 hour",'
    assert windows.after("filter(x)").text == "        events.filter(x),"
    assert once.with_delay("1 hour").text.endswith('(rows, ["id"], at="at", within="1 hour")')
