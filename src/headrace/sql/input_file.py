"""``input_file_name()`` and its like in a query over ``read_files``: parts of ``_metadata``, where that is the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.errors import PipelineError
from headrace.sql.lexer import Kind, Token, closings, lex

# Spark's functions, which know of its own file sources alone, and the fields of _metadata that say the same.
FIELDS: Mapping[str, str] = {
    "input_file_name": "file_path",
    "input_file_block_start": "file_block_start",
    "input_file_block_length": "file_block_length",
}
# Of local files Spark's function writes two slashes more than the column does.
_NAME = "regexp_replace({field}, '^file:/(?!/)', 'file:///')"
# Where these are, a column more or less in a star is another result.
_COMPARING = ("DISTINCT", "UNION", "INTERSECT", "EXCEPT", "MINUS", "NATURAL", "PIVOT", "UNPIVOT")


def names_column(text: str, column: str) -> bool:
    """Whether a query names a column; in a string the name says nothing."""
    if column not in text.casefold():
        return False
    return any(token.is_name and token.text.strip("`").casefold() == column for token in lex(text).tokens)


def with_metadata(text: str, column: str) -> str | None:
    """A query with the fields of *column* in the place of such calls; None where there are none.

    The column may be in the stars of the query then, and is to be left out of its result.

    Raises:
        PipelineError: ``AUTO_LOADER.INPUT_FILE``: a star of the query is such that the column would count.
    """
    if "input_file_" not in text.casefold():
        return None
    tokens = lex(text).tokens
    found = list(_calls(tokens))
    if not found:
        return None
    if not names_column(text, column) and not _leaves_out(tokens):
        name = tokens[found[0]].text.lower()
        raise PipelineError("AUTO_LOADER.INPUT_FILE", function=name, field=FIELDS[name])
    pieces, position = [], 0
    for index in found:
        pieces += [text[position : tokens[index].start], said_by(column, tokens[index].text.lower())]
        position = tokens[index + 2].end
    return "".join((*pieces, text[position:]))


def said_by(column: str, function: str) -> str:
    """The expression over *column* that says what one of the functions does."""
    field = f"{column}.{FIELDS[function]}"
    return _NAME.format(field=field) if function == "input_file_name" else field


def _calls(tokens: Sequence[Token]) -> Iterator[int]:
    for index, token in enumerate(tokens[:-2]):
        called = tokens[index + 1].is_symbol("(") and tokens[index + 2].is_symbol(")")
        qualified = index > 0 and tokens[index - 1].is_symbol(".")
        if token.kind is Kind.WORD and token.text.lower() in FIELDS and called and not qualified:
            yield index


def _leaves_out(tokens: Sequence[Token]) -> bool:
    """Whether a column that is in the stars too can be left out of the result alone."""
    stars = [index for index, token in enumerate(tokens) if token.is_symbol("*") and _is_all(tokens, index)]
    if not stars:
        return True
    pairs = closings(tokens)
    listed = {index + 1 for index in stars}
    compares = any(token.is_word(*_COMPARING) and index not in listed for index, token in enumerate(tokens))
    return not compares and not _groups_by_all(tokens) and all(_is_selected(tokens, index, pairs) for index in stars)


def _is_all(tokens: Sequence[Token], index: int) -> bool:
    """Whether a star stands for columns, and not between two factors or in ``count(*)``."""
    before = tokens[index - 1] if index else None
    if before is None or before.is_word("SELECT", "DISTINCT", "ALL") or before.is_symbol(",", "."):
        return True
    return before.is_symbol("(") and not (index > 1 and tokens[index - 2].is_word("COUNT"))


def _is_selected(tokens: Sequence[Token], index: int, pairs: Mapping[int, int]) -> bool:
    """Whether a star is one of the columns of a SELECT: of no function, and of no query that stands for a value."""
    around = [opening for opening, closing in pairs.items() if opening < index < closing]
    if not around:
        return True
    opening = max(around)
    before = tokens[opening - 1] if opening else None
    is_relation = (
        before is None or before.is_word("FROM", "JOIN", "AS", "EXISTS", "LATERAL") or before.is_symbol(",", "(")
    )
    return is_relation and tokens[opening + 1].is_word("SELECT", "WITH", "FROM")


def _groups_by_all(tokens: Sequence[Token]) -> bool:
    """Whether all columns of the result are keys of groups."""
    return any(
        token.is_word("GROUP")
        and tokens[index + 1].is_word("BY")
        and (tokens[index + 2].is_word("ALL") or tokens[index + 2].is_symbol("*"))
        for index, token in enumerate(tokens[:-2])
    )
