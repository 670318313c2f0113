from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PipelineError
from headrace.sql.statements import split_statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ;; -- only; comments\n ; /* ; */", []),
        ("a;b", ["a", "b"]),
        ("a 'x;' \";\" `;` -- ;\n b; c", ["a 'x;' \";\" `;` -- ;\n b", "c"]),
        ("a /* ; /* ; */ ; */ b; c", ["a /* ; /* ; */ ; */ b", "c"]),
        (r"a '\';' ; b", [r"a '\';'", "b"]),
        ("a ''';' ; b", ["a ''';'", "b"]),
        (r"a r'\' ; b", [r"a r'\'", "b"]),
        ("a (b; c); d", ["a (b; c)", "d"]),
        ("a (b; c; d)", ["a (b; c; d)"]),
        ("a (b; c", ["a (b", "c"]),
        ("a b); c", ["a b)", "c"]),
        ("a ([b; c); d", ["a ([b; c)", "d"]),
        ("CALL f(';'); b", ["CALL f(';')", "b"]),
    ],
)
def test_a_text_is_split_where_statements_end(text, statements):
    assert [statement.text for statement in split_statements(text, "f.sql")] == statements


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_statement_begins_on_the_line_of_its_first_word(line_end):
    text = line_end.join(["-- first", "a", "b;", "", "/* more", "*/ c", "; 'd", "e'"])

    found = split_statements(text, "f.sql")

    assert [statement.line for statement in found] == [2, 6, 7]
    assert [token.line for token in found[0].tokens] == [2, 3]


@given(st.lists(st.sampled_from(["a", "(", ")", "';'", "`;`", " ", "\n", "/*;*/", "[", "]", "."]).map(str)))
def test_text_without_a_semicolon_of_its_own_is_one_statement(pieces):
    assert len(split_statements("".join(["x", *pieces]), "f.sql")) == 1


def test_offsets_of_pieces_are_into_their_statement():
    _, second = split_statements("a;\n  b 'c'", "f.sql")

    assert [second.text[token.start : token.end] for token in second.tokens] == ["b", "'c'"]


def test_the_line_is_told_when_a_string_is_not_closed():
    with pytest.raises(PipelineError) as caught:
        split_statements("a;\nb 'c\nd", "f.sql")

    assert caught.value.code == "SQL.SYNTAX"
    assert str(caught.value.location) == "f.sql:2"
