"""What has to change in a table that is there, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.delta_log.table_layout import TableLayout
from headrace.graph.build import build
from headrace.graph.resolved_flows import Mode
from headrace.model.datasets import Dataset, Definitions, Flow, Kind, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.plan.schema_evolution import EvolvedBy, evolution

STRICT = {"headrace.strict": "true"}
HERE = Location("transformations/a.py", 1)


@pytest.fixture
def evolved(make):
    def evolve(table, code, *, replaced=False, full_refresh=False, deployed=(), **declared):
        mode = Mode.REPLACE if replaced else Mode.APPEND
        dataset = make.graph(make.flow("t", mode=mode), schema=code, **declared).datasets[0]
        there = make.table(make.schema(table), properties=dict(deployed) or dict(declared.get("properties", {})))
        evolved_by = EvolvedBy.COMPUTATION if replaced else EvolvedBy.STEP
        return evolution(dataset, there, TableLayout(), evolved_by, full_refresh=full_refresh)

    return evolve


def test_a_wider_column_type_enables_type_widening(evolved):
    step, _ = evolved("id integer, d date", "id long, d timestamp_ntz, v string")

    assert step.reason == (
        'adds "v", widens "id" from int to bigint, widens "d" from date to timestamp_ntz, '
        'sets property "delta.feature.timestampNtz", sets property "delta.enableTypeWidening"'
    )
    assert step.columns == ("v",)
    assert [str(field) for field in step.widened] == ["id", "d"]


def test_a_narrower_type_changes_nothing(evolved):
    assert evolved("id long, gone string", "id integer") == (None, None)


def test_a_wider_type_is_refused_when_type_widening_is_disabled(evolved):
    _, problem = evolved("id integer", "id long", properties={"delta.enableTypeWidening": "false"})

    assert (problem.code, problem.params["changes"]) == (
        "TABLE.TYPE_CHANGED",
        '"id" is int in the table and bigint in the query',
    )


@pytest.mark.parametrize(
    ("code", "replaced", "changes"),
    [
        ("id integer, v string", False, '"v" is missing in the table and string in the query'),
        ("id long", False, '"id" is int in the table and bigint in the query'),
        ("id short", False, None),
        (
            "v integer",
            True,
            '"v" is missing in the table and int in the query; "id" is int in the table and missing in the query',
        ),
        ("id integer", True, None),
    ],
)
def test_schema_evolution_of_a_strict_table_is_refused(evolved, code, replaced, changes):
    _, problem = evolved("id integer", code, replaced=replaced, properties=STRICT)

    assert (problem.params["changes"] if problem else None) == changes
    assert problem is None or problem.code == "TABLE.STRICT"


def test_a_full_refresh_may_change_the_schema_of_a_strict_view(evolved):
    assert evolved("id integer", "v integer", replaced=True, full_refresh=True, properties=STRICT) == (None, None)


def test_a_table_stops_being_strict_when_the_code_removes_the_property(evolved):
    step, _ = evolved("id integer", "id integer, v string", deployed=STRICT)

    assert step.reason == 'adds "v", sets property "headrace.strict"'


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("headrace.strikt", "true", ("DATASET.UNKNOWN_PROPERTY", "Remove it, or write headrace.strict.")),
        ("Headrace.Strict", "true", ("DATASET.UNKNOWN_PROPERTY", "Remove it, or write headrace.strict.")),
        (
            "headrace.strict",
            "yes",
            ("DATASET.PROPERTY_VALUE", 'Write "headrace.strict": "true", or "false", or leave it out.'),
        ),
        (
            "headrace.cdc.on_tie",
            "ignore",
            (
                "DATASET.PROPERTY_VALUE",
                'Write "headrace.cdc.on_tie": "resolve", or "fail" or "quarantine", or leave it out.',
            ),
        ),
        ("headrace.cdc.on_tie", "Fail", None),
        (
            "pipelines.cdc.tombstoneGCThresholdInSeconds",
            "2 days",
            ("CDC.BAD_RETENTION", "Write a whole number, 0 or more. The default retention is two days: 172800."),
        ),
        ("headrace.strict", "False", None),
        ("headraces", "1", None),
    ],
)
def test_unknown_or_invalid_headrace_properties_are_refused(key, value, said):
    name = QualifiedName("t")
    dataset = Dataset(name, Kind.STREAMING_TABLE, HERE, properties={key: value})
    flow = Flow("t", name, PythonQuery(lambda: None, Naming()), HERE)

    _, problems = build(Definitions((dataset,), (flow,)), Naming())

    assert [(problem.code, problem.hint) for problem in problems] == ([said] if said else [])


def test_comments_follow_the_code_and_an_empty_comment_removes_the_old_one(make):
    (dataset,) = make.graph(make.flow("t", mode=Mode.APPEND), schema="a long, b long, c long, d long").datasets
    code = dataset.schema.commented({"a": "now", "b": "", "c": "same"})
    table = dataset.schema.commented({"A": "was", "b": "was", "c": "same", "d": "kept"})
    declared = replace(dataset, schema=code, dataset=replace(dataset.dataset, comment=""))

    step, _ = evolution(declared, make.table(table, comment="was"), TableLayout(), EvolvedBy.STEP, full_refresh=False)
    again, _ = evolution(declared, make.table(code, comment=""), TableLayout(), EvolvedBy.STEP, full_refresh=False)

    assert step.reason == 'sets the comment, sets the comment of "a", sets the comment of "b"'
    assert (step.comment, step.column_comments) == ("", (("a", "now"), ("b", "")))
    assert again is None
