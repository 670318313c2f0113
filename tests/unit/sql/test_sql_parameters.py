from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.errors import Problems
from headrace.sql.parameters import substitute
from headrace.sql.statements import split_statements


def substituted(text: str, **values: str):
    (statement,) = split_statements(text, "f.sql")
    return substitute(statement, values, "f.sql")


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("SELECT ${x}", "1 + 2", "SELECT 1 + 2"),
        ("SELECT ${ x }", "f(a)[0]", "SELECT f(a)[0]"),
        ("SELECT ${x}_b.c", "a", "SELECT a_b.c"),
        ("SELECT '${x}/d'", 'c:"/', "SELECT 'c:\"//d'"),
        ("SELECT `a ${x}`", "b; c", "SELECT `a b; c`"),
        ("SELECT r'${x}'", r"\d", r"SELECT r'\d'"),
        ("SELECT ${x} -- ${y}", "'a'", "SELECT 'a'"),
        ("SELECT /* ${y} */ ${x}", "", "SELECT /* ${y} */ "),
        ("SELECT ${x}", "${x}", "SELECT ${x}"),
    ],
)
def test_a_parameter_is_replaced_by_its_value(text, value, expected):
    assert substituted(text, x=value).text == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SELECT ${x}", "1; DROP TABLE t"),
        ("SELECT ${x} + 1", "1 -- "),
        ("SELECT ${x} + 1", "1 /* "),
        ("SELECT -${x}", "-1"),
        ("SELECT ${x}* 1", "2 /"),
        ("SELECT ${x} )", "("),
        ("SELECT (${x})", "1) + (2"),
        ("SELECT ${x}", "'a"),
        ("SELECT '${x}'", "' OR '1' = '1"),
        ("SELECT '${x}'", "a\\"),
        ("SELECT `${x}`", "a` FROM b --"),
        ('SELECT "${x}"', '" || secret || "'),
    ],
)
def test_a_value_that_would_change_the_surrounding_sql_is_refused(text, value):
    with pytest.raises(Problems) as caught:
        substituted(text, x=value)

    assert {problem.code for problem in caught.value} == {"SQL.PARAMETER_VALUE"}
    assert value not in str(caught.value)


awkward = st.lists(
    st.sampled_from(["'", '"', "`", "\\", "--", "/*", "*/", ";", "(", ")", "x", "\n", "r", "${y}", "{#"])
)


@given(
    st.one_of(st.text(), awkward.map("".join)),
    st.sampled_from(["SELECT ${x} , 'end'", "SELECT '${x}' , 'end'", "SELECT `${x}` , 'end'"]),
)
def test_an_accepted_value_does_not_change_the_surrounding_sql(value, text):
    assume(value.strip())
    try:
        found = substituted(text, x=value)
    except Problems:
        return

    around = [token for token in found.tokens if token.parameter is None]
    assert [token.text for token in around] == ["SELECT", ",", "'end'"]


def test_a_multi_line_value_does_not_shift_line_numbers():
    found = substituted("SELECT ${x},\n b", x="1 +\n\n2")

    assert [(token.text, token.line) for token in found.tokens] == [
        *[("SELECT", 1), ("1", 1), ("+", 1), ("2", 1), (",", 1)],
        ("b", 2),
    ]


def test_every_unknown_parameter_is_reported_with_its_line():
    with pytest.raises(Problems) as caught:
        substituted("SELECT ${lmit},\n'${zebra}'", limit="1")

    assert [str(problem.location) for problem in caught.value] == ["f.sql:1", "f.sql:2"]
    assert [problem.hint.startswith('Did you mean "limit"?') for problem in caught.value] == [True, False]
