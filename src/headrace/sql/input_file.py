"""Replaces ``input_file_name()`` and the like in queries over ``read_files`` by fields of ``_metadata``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.errors import PipelineError
from headrace.sql.lexer import Kind, Token, bracket_pairs, lex

# Spark's functions, which only support its own file sources, and the equivalent fields of _metadata.
FIELDS: Mapping[str, str] = {
    "input_file_name": "file_path",
    "input_file_block_start": "file_block_start",
    "input_file_block_length": "file_block_length",
}
# For local files, Spark's function returns two slashes more than the column.
_NAME = "regexp_replace({field}, '^file:/(?!/)', 'file:///')"
# With these keywords, another column in a star would change the result.
_COMPARING = ("DISTINCT", "UNION", "INTERSECT", "EXCEPT", "MINUS", "NATURAL", "PIVOT", "UNPIVOT")


def names_column(text: str, column: str) -> bool:
    """True if a query names a column outside of strings."""
    if column not in text.casefold():
        return False
    return any(token.is_name and token.text.strip("`").casefold() == column for token in lex(text).tokens)


def replace_input_file_calls(text: str, column: str) -> str | None:
    """The query with fields of *column* in place of such calls; None if there are none.

    The stars of the query may then include the column, which has to be dropped from the result.

    Raises:
        PipelineError: ``AUTO_LOADER.INPUT_FILE``: the column in a star of the query would change the result.
    """
    if "input_file_" not in text.casefold():
        return None
    tokens = lex(text).tokens
    found = list(_calls(tokens))
    if not found:
        return None
    if not names_column(text, column) and not _can_be_dropped(tokens):
        name = tokens[found[0]].text.lower()
        raise PipelineError("AUTO_LOADER.INPUT_FILE", function=name, field=FIELDS[name])
    pieces, position = [], 0
    for index in found:
        pieces += [text[position : tokens[index].start], metadata_expression(column, tokens[index].text.lower())]
        position = tokens[index + 2].end
    return "".join((*pieces, text[position:]))


def metadata_expression(column: str, function: str) -> str:
    """The expression over *column* that is equivalent to one of the functions."""
    field = f"{column}.{FIELDS[function]}"
    return _NAME.format(field=field) if function == "input_file_name" else field


def _calls(tokens: Sequence[Token]) -> Iterator[int]:
    for index, token in enumerate(tokens[:-2]):
        called = tokens[index + 1].is_symbol("(") and tokens[index + 2].is_symbol(")")
        qualified = index > 0 and tokens[index - 1].is_symbol(".")
        if token.kind is Kind.WORD and token.text.lower() in FIELDS and called and not qualified:
            yield index


def _can_be_dropped(tokens: Sequence[Token]) -> bool:
    """True if a column that the stars include can simply be dropped from the result."""
    stars = [index for index, token in enumerate(tokens) if token.is_symbol("*") and _is_all(tokens, index)]
    if not stars:
        return True
    pairs = bracket_pairs(tokens)
    listed = {index + 1 for index in stars}
    compares = any(token.is_word(*_COMPARING) and index not in listed for index, token in enumerate(tokens))
    return not compares and not _groups_by_all(tokens) and all(_is_selected(tokens, index, pairs) for index in stars)


def _is_all(tokens: Sequence[Token], index: int) -> bool:
    """True if a star means all columns, not multiplication or ``count(*)``."""
    before = tokens[index - 1] if index else None
    if before is None or before.is_word("SELECT", "DISTINCT", "ALL") or before.is_symbol(",", "."):
        return True
    return before.is_symbol("(") and not (index > 1 and tokens[index - 2].is_word("COUNT"))


def _is_selected(tokens: Sequence[Token], index: int, pairs: Mapping[int, int]) -> bool:
    """True if a star is in the column list of a SELECT, not in a function or a scalar subquery."""
    enclosing = [opening for opening, closing in pairs.items() if opening < index < closing]
    if not enclosing:
        return True
    opening = max(enclosing)
    before = tokens[opening - 1] if opening else None
    is_relation = (
        before is None or before.is_word("FROM", "JOIN", "AS", "EXISTS", "LATERAL") or before.is_symbol(",", "(")
    )
    return is_relation and tokens[opening + 1].is_word("SELECT", "WITH", "FROM")


def _groups_by_all(tokens: Sequence[Token]) -> bool:
    """True if the query groups by all columns of the result."""
    return any(
        token.is_word("GROUP")
        and tokens[index + 1].is_word("BY")
        and (tokens[index + 2].is_word("ALL") or tokens[index + 2].is_symbol("*"))
        for index, token in enumerate(tokens[:-2])
    )
