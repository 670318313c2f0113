"""Where columns come from, in plans as Spark writes them; without Spark, and for plans that it would not write.

The plans are those of queries of ``tests/spark/test_column_lineage.py``, without what is not read.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.spark.test_column_lineage import EXPECTED, as_text

from headrace.model.column_lineage import Use
from headrace.spark.analysis.column_lineage import lineage_of_plan
from headrace.spark.analysis.plan_tree import parsed, post_order

PLANS = sorted((Path(__file__).parent / "plans").glob("*.json"))
SPARK = "org.apache.spark.sql.catalyst"


def read(file):
    document = json.loads(file.read_text())
    leaves = {int(number): tuple(names) for number, names in document["leaves"].items()}
    return json.dumps(document["plan"]), document["names"], leaves


@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_columns_come_from_the_columns_that_they_use(file):
    found = lineage_of_plan(*read(file))

    assert as_text(found) == EXPECTED[file.stem]
    assert found.is_complete


def attribute(number, name):
    kind = f"{SPARK}.expressions.AttributeReference"
    return {"class": kind, "num-children": 0, "name": name, "exprId": {"id": number}}


def alias(number, name, *expression):
    kind = f"{SPARK}.expressions.Alias"
    return [{"class": kind, "num-children": 1, "child": 0, "name": name, "exprId": {"id": number}}, *expression]


def node(kind, children=0, **fields):
    return {"class": f"{SPARK}.plans.logical.{kind}", "num-children": children, **fields}


TABLE = node("LogicalRelation", output=[[attribute(1, "a")], [attribute(2, "b")]])
LEAVES = {1: ("t",)}


def found(names, *nodes, leaves=None):
    return lineage_of_plan(json.dumps(nodes), names, LEAVES if leaves is None else leaves)


def test_an_operator_that_is_not_known_takes_its_columns_from_all_below_it():
    columns = found(["x", "a"], node("Surprise", 1, output=[[attribute(9, "x")], [attribute(1, "a")]]), TABLE)

    assert as_text(columns) == {"x": "t.a (transformation), t.b (transformation)", "a": "t.a"}


def test_an_operator_that_only_passes_columns_on_changes_nothing():
    assert as_text(found(["a", "b"], node("Repartition", 1), TABLE)) == {"a": "t.a", "b": "t.b"}


def test_a_source_without_a_name_makes_the_lineage_incomplete():
    columns = found(["a", "b"], TABLE, leaves={})

    assert as_text(columns) == {"a": "", "b": ""}
    assert not columns.is_complete


def test_an_attribute_that_no_operator_defines_makes_it_incomplete():
    columns = found(["c"], node("Project", 1, projectList=[alias(9, "c", attribute(7, "hidden"))]), TABLE)

    assert as_text(columns) == {"c": ""}
    assert not columns.is_complete


def test_a_column_of_very_many_keeps_the_first_ones_and_says_so():
    wide = node("LogicalRelation", output=[[attribute(number, f"c{number}")] for number in range(1, 700)])

    columns = found(["x"], node("MapInPandas", 1, output=[[attribute(900, "x")]]), wide)

    assert len(columns.columns[0].uses) == 500
    assert {use.use for use in columns.columns[0].uses} == {Use.TRANSFORMATION}
    assert not columns.is_complete


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[1]",
        json.dumps([node("Filter", 1)]),
        json.dumps([node("Filter", 1), TABLE]),
        json.dumps([node("Filter", 1, condition=None), TABLE]),
        json.dumps([node("Project", 1, projectList=7), TABLE]),
        json.dumps([node("Project", 1, projectList=[True]), TABLE]),
        json.dumps([TABLE, TABLE]),
        json.dumps([node("CTERelationRef", cteId=5, output=[[attribute(1, "a")]])]),
        json.dumps([node("LogicalRelation", output=[[attribute(1, "other")]])]),
        json.dumps([node("Union", 2), TABLE, node("Range", output=[[attribute(5, "id")]])]),
    ],
)
def test_a_plan_of_another_form_is_refused(text):
    with pytest.raises((ValueError, LookupError, TypeError)):
        lineage_of_plan(text, ["a", "b"], LEAVES)


def test_a_plan_that_is_deeper_than_the_stack_of_python_is_read():
    nodes = [node("SubqueryAlias", 1)] * 5000

    columns = found(["a", "b"], *nodes, TABLE)

    assert as_text(columns) == {"a": "t.a", "b": "t.b"}


def test_the_nodes_of_a_tree_come_after_those_below_them():
    tree = parsed(json.dumps([node("Join", 2), node("Filter", 1), TABLE, node("Range")]))

    assert [one.kind for one in post_order(tree)] == ["LogicalRelation", "Filter", "Range", "Join"]
    assert [one.kind for one in post_order(tree, lambda one: one.kind == "Filter")] == ["Filter", "Range", "Join"]
