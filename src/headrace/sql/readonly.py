"""Checks that a statement is read-only: `headrace sql` runs only these without `--write`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from headrace.errors import PipelineError
from headrace.sql.ctes import with_list
from headrace.sql.lexer import Kind, Token, bracket_pairs
from headrace.sql.statements import read_statements

# The words that begin a query.
QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_SHOWING = ("DESCRIBE", "DESC", "SHOW")
_EXPLAIN_MODES = ("LOGICAL", "FORMATTED", "EXTENDED", "CODEGEN", "COST")
_AFTER_INSERT = ("INTO", "OVERWRITE", "WITH")
# Functions that call any static Java method by name.
_REFLECTION = ("REFLECT", "TRY_REFLECT", "JAVA_METHOD")
_CONTINUED_COMMENT = re.compile(r"--[^\r\n]*\\\r?\n")


def check_readonly(text: str) -> None:
    """Accept exactly one statement that cannot change data.

    Raises:
        PipelineError: SQL.NOT_READ_ONLY for anything else; SQL.SYNTAX if a string, a quoted name or a comment is not
            closed.
    """
    statements, unclosed = read_statements(text, "query")
    if unclosed is not None:
        raise unclosed
    if len(statements) != 1:
        raise _refusal(f"It contains {len(statements)} statements instead of one" if statements else "It is empty")
    reason = _reason(text, statements[0].tokens)
    if reason:
        raise _refusal(reason)


def starts_query(tokens: Sequence[Token]) -> bool:
    """True if the tokens begin a query."""
    return bool(tokens) and (tokens[0].is_word(*QUERY_WORDS) or tokens[0].is_symbol("("))


def changing_verb(tokens: Sequence[Token]) -> Token | None:
    """The word that makes a statement write: INSERT anywhere, or a word after a WITH list that begins no query."""
    for token, following in pairwise(tokens):
        if token.is_word("INSERT") and following.is_word(*_AFTER_INSERT):
            return token
    main = _after_with(tokens)
    return None if main is None or starts_query([main]) else main


def _reason(text: str, tokens: Sequence[Token]) -> str | None:
    first = tokens[0]
    if _continues_comment(text):
        return "It has a line comment that ends in a backslash, which hides the next line from Spark"
    if first.is_word("EXPLAIN"):
        tokens = tokens[2:] if tokens[1:2] and tokens[1].is_word(*_EXPLAIN_MODES) else tokens[1:]
        if not starts_query(tokens):
            return "EXPLAIN is followed by something that is not a query"
    elif not starts_query(tokens) and not first.is_word(*_SHOWING):
        return f'It starts with "{first.text}"'
    verb = changing_verb(tokens)
    if verb is not None:
        return f'It contains "{verb.text}"'
    if _runs_script(tokens):
        return "It runs a program with USING"
    function = _reflection(tokens)
    if function is not None:
        return f'It calls Java code with "{function}"'
    return None


def _after_with(tokens: Sequence[Token]) -> Token | None:
    """The word after the list of a leading WITH."""
    begin = next((index for index, token in enumerate(tokens) if not token.is_symbol("(")), len(tokens))
    if begin == len(tokens) or not tokens[begin].is_word("WITH"):
        return None
    end = with_list(tokens, begin, bracket_pairs(tokens)).end
    return tokens[end] if end < len(tokens) else None


def _runs_script(tokens: Sequence[Token]) -> bool:
    """True for ``TRANSFORM (...) USING 'program'`` and the like; a join's USING is not followed by a string."""
    return any(token.is_word("USING") and following.kind is Kind.STRING for token, following in pairwise(tokens))


def _reflection(tokens: Sequence[Token]) -> str | None:
    """The name of a called function that can run arbitrary code, also if it is quoted or computed."""
    ends = bracket_pairs(tokens)
    for index, token in enumerate(tokens):
        end = ends.get(index + 1)
        if token.is_word("IDENTIFIER") and end is not None and tokens[end + 1 :] and tokens[end + 1].is_symbol("("):
            return token.text
    for token, following in pairwise(tokens):
        if token.kind in (Kind.WORD, Kind.QUOTED) and following.is_symbol("("):
            name = token.text.strip("`")
            if name.upper() in _REFLECTION:
                return name
    return None


def _continues_comment(text: str) -> bool:
    # Spark continues such a comment on the next line and the tokenizer does not, so they see different statements.
    return _CONTINUED_COMMENT.search(text) is not None


def _refusal(reason: str) -> PipelineError:
    return PipelineError("SQL.NOT_READ_ONLY", reason=reason)
