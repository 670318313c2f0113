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
def test_text_is_split_at_semicolons_that_end_statements(text, statements):
    assert [statement.text for statement in split_statements(text, "f.sql")] == statements


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_statement_begins_on_the_line_of_its_first_word(line_end):
    text = line_end.join(["-- first", "a", "b;", "", "/* more", "*/ c", "; 'd", "e'"])

    found = split_statements(text, "f.sql")

    assert [statement.line for statement in found] == [2, 6, 7]
    assert [token.line for token in found[0].tokens] == [2, 3]


@given(st.lists(st.sampled_from(["a", "(", ")", "';'", "`;`", " ", "\n", "/*;*/", "[", "]", "."]).map(str)))
def test_semicolons_in_strings_names_and_comments_do_not_split_a_statement(pieces):
    assert len(split_statements("".join(["x", *pieces]), "f.sql")) == 1


def test_token_offsets_are_relative_to_their_statement():
    _, second = split_statements("a;\n  b 'c'", "f.sql")

    assert [second.text[token.start : token.end] for token in second.tokens] == ["b", "'c'"]


def test_an_unclosed_string_is_reported_with_its_line():
    with pytest.raises(PipelineError) as caught:
        split_statements("a;\nb 'c\nd", "f.sql")

    assert caught.value.code == "SQL.SYNTAX"
    assert str(caught.value.location) == "f.sql:2"
