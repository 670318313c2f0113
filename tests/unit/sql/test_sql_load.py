from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.names import Naming
from headrace.pipelines.registry import Registry
from headrace.sql.lexer import Kind, lex, unquoted
from headrace.sql.load import load_sql

PIECES = [
    *(
        "CREATE",
        "OR",
        "REFRESH",
        "STREAMING",
        "TABLE",
        "MATERIALIZED",
        "VIEW",
        "TEMPORARY",
        "LIVE",
        "FLOW",
        "t",
        "`a b`",
    ),
    *(
        "AS",
        "SELECT",
        "1",
        "INSERT",
        "INTO",
        "ONCE",
        "BY",
        "NAME",
        "WITH",
        "(",
        ")",
        ",",
        "<",
        ">",
        "INT",
        "NOT",
        "NULL",
    ),
    *("COMMENT", "'c'", "TBLPROPERTIES", "=", "CONSTRAINT", "EXPECT", "ON", "VIOLATION", "DROP", "ROW", ";", "${p}"),
    *("SET", "USE", "CATALOG", "SCHEMA", ".", "-", ":x", "PARTITIONED", "CLUSTER", "AUTO", "CDC", "'", "/*", "\n"),
]


def loaded(text: str, **configuration: str) -> Registry:
    registry = Registry(Naming(schema="gold"), Path())
    load_sql(text, "f.sql", registry, configuration)
    return registry


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join)))
def test_every_error_becomes_a_problem_with_a_line_number(text):
    registry = loaded(text, p="1")

    assert all(problem.location is not None and problem.location.line > 0 for problem in registry.problems)


@given(st.lists(st.sampled_from([piece for piece in PIECES if piece not in {"(", ";", "'", "/*"}]), max_size=12))
def test_an_invalid_statement_does_not_affect_the_next_one(pieces):
    # USE in what came before may move the view to another schema.
    registry = loaded(f"{' '.join(pieces)};\nCREATE TEMPORARY VIEW last AS SELECT 1", p="1")

    assert [flow.name.split(".")[-1] for flow in registry.definitions().flows][-1] == "last"


def test_a_file_starts_in_the_default_schema_of_the_project():
    flow = loaded("CREATE FLOW f AS INSERT INTO gold.t SELECT * FROM x").definitions().flows[0]

    assert (str(flow.target), flow.query.naming) == ("t", Naming(schema="gold"))


def test_a_byte_order_mark_is_ignored():
    assert loaded("\ufeffCREATE TEMPORARY VIEW v AS SELECT 1").problems == []


def test_an_error_in_a_statement_does_not_show_parameter_values():
    registry = loaded("CREATE MATERIALIZED VIEW v COMMENT ${word} AS SELECT 1", word="hunter2")

    (problem,) = registry.problems
    assert 'the value of parameter "word"' in problem.message
    assert "hunter2" not in problem.render()


def test_a_long_token_is_truncated_to_one_short_line_in_the_message():
    (problem,) = loaded("CREATE MATERIALIZED VIEW v AS '" + "long\n" * 50 + "'").problems

    assert problem.message == 'expected a query, found "\'long..."'


@pytest.mark.parametrize(
    "query",
    [
        "SELECT payload:field, payload:a.b[0]:c, f(x):y, x::int, `a`:b FROM t",
        "SELECT CAST(x AS STRUCT<a:INT, b: STRING>) FROM t",
        "SELECT ':name' -- :name\nFROM t",
    ],
)
def test_a_colon_that_marks_no_parameter_is_left_to_spark(query):
    registry = loaded(f"CREATE MATERIALIZED VIEW v AS {query}")

    assert registry.problems == []
    assert registry.definitions().flows[0].query.text == query


@pytest.mark.parametrize("use", [":p", "(:p)", "a = :p", "a=:p", "IDENTIFIER(:p)", "a, :p", "LIMIT :p"])
def test_a_named_parameter_without_a_value_is_reported_by_name(use):
    (problem,) = loaded(f"CREATE MATERIALIZED VIEW v AS SELECT 1 {use}").problems

    assert (problem.code, problem.params["name"]) == ("SQL.UNKNOWN_MARKER", "p")


@given(st.text())
def test_any_value_of_a_named_parameter_becomes_one_string_literal(value):
    registry = Registry(Naming(), Path())
    load_sql("CREATE MATERIALIZED VIEW v AS SELECT :p AS a, 'end'", "f.sql", registry, {}, {"p": value})

    (flow,) = registry.definitions().flows
    tokens = lex(flow.query.text).tokens
    assert registry.problems == []
    assert [token.kind for token in tokens if token.kind is Kind.STRING] == [Kind.STRING] * 2
    assert unquoted(tokens[1]) == value


def test_properties_of_a_table_declare_metrics():
    text = """
        CREATE STREAMING TABLE t
        TBLPROPERTIES (headrace.metric.value = 'sum(amount)', 'headrace.metric.2x' = 'count(*)', a = 'b');
        CREATE VIEW v TBLPROPERTIES ('headrace.metric.value' = 'sum(amount)') AS SELECT 1
    """

    registry = loaded(text)

    datasets = registry.definitions().datasets
    found = {str(one.name): [(m.name, m.expression, m.location.line) for m in one.metrics] for one in datasets}
    assert found == {"t": [("value", "sum(amount)", 3)], "v": [("value", "sum(amount)", 4)]}
    assert [one.properties for one in datasets] == [{"a": "b"}, {}]
    assert [(one.code, one.location.line) for one in registry.problems] == [("METRICS.INVALID_NAME", 3)]
