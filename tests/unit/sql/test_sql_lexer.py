from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sql.lexer import Kind, lex, unquoted

PIECES = [
    "a",
    "`b c`",
    "'s'",
    "'it''s'",
    r"'\''",
    "r'\\'",
    '"d"',
    "/* c */",
    "-- l\n",
    "(",
    ")",
    ";",
    ".",
    ",",
    " ",
    "\r\n",
    "10L",
    "${x}",
    "é",
]
sql_texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))


@given(sql_texts)
def test_tokens_are_ordered_slices_of_any_text(text):
    tokens = lex(text).tokens

    assert [text[token.start : token.end] for token in tokens] == [token.text for token in tokens]
    assert all(first.end <= second.start for first, second in pairwise(tokens))


@given(sql_texts)
def test_the_line_of_a_token_is_one_more_than_the_line_breaks_before_it(text):
    assert all(
        token.line == 1 + len(re.findall(r"\r\n|\r|\n", text[: token.start] + "x")) for token in lex(text).tokens
    )


@given(st.lists(st.sampled_from(["a", "'s'", "/* c */", "\n", "(", "`n`", "-- l\n"])).map("".join))
def test_an_unclosed_comment_is_located_at_its_opener(before):
    unclosed = lex(f"{before} /* x").unclosed

    assert unclosed is not None
    assert (unclosed.start, unclosed.text) == (len(before) + 1, "/*")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SELECT `a`", [Kind.WORD, Kind.QUOTED]),
        ("t.2024_q1", [Kind.WORD, Kind.SYMBOL, Kind.WORD]),
        ("10L 1.5BD 1e-5D", [Kind.WORD, Kind.NUMBER, Kind.NUMBER]),
        ("'it''s'", [Kind.STRING]),
        ("'a' 'b'", [Kind.STRING, Kind.STRING]),
        ("SHOW x ';'", [Kind.WORD, Kind.WORD, Kind.STRING]),
        ("GROUP BY", [Kind.WORD, Kind.WORD]),
        ("a::b", [Kind.WORD, Kind.SYMBOL, Kind.SYMBOL, Kind.WORD]),
        ("/* a /* b */ c */ d", [Kind.WORD]),
        ("/*+ BROADCAST(t) */ d", [Kind.WORD]),
        ("x'zz'", [Kind.WORD, Kind.STRING]),
    ],
)
def test_tokens_have_the_same_kind_as_in_spark(text, kinds):
    assert [token.kind for token in lex(text).tokens] == kinds


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
        (r"r'\n'", r"\n"),
        (r"'\n\t\\'", "\n\t\\"),
        (r"'100\%'", r"100\%"),
        (r"'\u00e9\101\x'", "éAx"),
        (r"'\U00110000'", r"\U00110000"),
    ],
)
def test_a_string_literal_has_the_same_value_as_in_spark(text, value):
    (token,) = lex(text).tokens

    assert unquoted(token) == value


@pytest.mark.parametrize(
    ("text", "opener"), [("a 'b", "'"), ('"b', '"'), ("`", "`"), ("/* /* */", "/*"), (r"'\'", "'")]
)
def test_the_opener_of_an_unclosed_token_is_reported(text, opener):
    unclosed = lex(text).unclosed

    assert unclosed is not None
    assert unclosed.text == opener
