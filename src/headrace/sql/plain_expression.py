"""New values of columns that come over the network: expressions that can compute, and nothing else.

Spark replaces ``${...}`` in any text, also by environment variables, and some of its functions call Java. So only what
is known to be harmless is accepted: columns, literals, operators and a list of functions.
"""

from __future__ import annotations

from itertools import pairwise

from headrace.errors import PipelineError
from headrace.sql.lexer import Kind, Token, lex

_FUNCTION_NAMES = """\
ABS BROUND CEIL CEILING FLOOR GREATEST LEAST MOD NEGATIVE POWER ROUND SIGN SQRT TRUNC
COALESCE IF IFF IFNULL NANVL NULLIF NVL NVL2 ISNULL ISNOTNULL ISNAN
CAST TRY_CAST BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE FLOAT INT SMALLINT STRING TIMESTAMP TINYINT CHAR VARCHAR
CONCAT CONCAT_WS CONTAINS ENDSWITH INITCAP INSTR LEFT LENGTH LOCATE LOWER LPAD LTRIM REGEXP_EXTRACT REGEXP_REPLACE
REPLACE REVERSE RIGHT RPAD RTRIM SPLIT SPLIT_PART STARTSWITH SUBSTR SUBSTRING TRANSLATE TRIM UPPER
ADD_MONTHS DATE_ADD DATE_FORMAT DATE_SUB DATE_TRUNC DATEDIFF DAY DAYOFMONTH FROM_UNIXTIME HOUR LAST_DAY MAKE_DATE
MINUTE MONTH MONTHS_BETWEEN QUARTER SECOND TO_DATE TO_NUMBER TO_TIMESTAMP TRY_TO_NUMBER TRY_TO_TIMESTAMP
UNIX_TIMESTAMP YEAR
ARRAY ELEMENT_AT GET NAMED_STRUCT SIZE STRUCT TRY_ADD TRY_DIVIDE TRY_ELEMENT_AT TRY_MULTIPLY TRY_SUBTRACT
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
# Words of the grammar that may stand before a bracket.
_BEFORE_BRACKETS = frozenset(
    ("AND", "OR", "NOT", "IN", "WHEN", "THEN", "ELSE", "CASE", "LIKE", "RLIKE", "BETWEEN", "AS", "DIV")
)
# With none of these, no expression reads a table, nor says that one does.
_REFUSED = frozenset(("SELECT", "FROM", "TABLE", "VALUES", "WITH", "OVER", "USING", "IDENTIFIER", "EXISTS", "LATERAL"))
_SYMBOLS = frozenset((*"()[],.+-*/%=<>!|&^~", "<=", ">=", "<>", "!=", "==", "<=>", "||", "::"))
_COMMENTS = ("--", "/*")


def check_change(change: str) -> None:
    """Accept ``COLUMN=EXPRESSION`` if the expression can only compute a value from the columns of a row.

    Raises:
        PipelineError: SERVE.EXPRESSION.
    """
    column, equals, expression = change.partition("=")
    reason = _reason(expression) if equals and column.strip() else "it is not COLUMN=EXPRESSION"
    if reason:
        raise PipelineError("SERVE.EXPRESSION", change=change, reason=reason)


def _reason(text: str) -> str | None:
    """Why an expression is not accepted; None if it is."""
    if "${" in text:
        return "it has a variable"
    if any(mark in text for mark in _COMMENTS):
        return "it has a comment"
    lexed = lex(text)
    if lexed.unclosed is not None:
        return f"{lexed.unclosed.text} is not closed"
    return _word_reason(lexed.tokens) if lexed.tokens else "it has no expression"


def _word_reason(tokens: tuple[Token, ...]) -> str | None:
    for token in tokens:
        if token.is_word(*_REFUSED) or (token.kind is Kind.SYMBOL and token.text not in _SYMBOLS):
            return f'it contains "{token.text}"'
    for token, following in pairwise(tokens):
        if following.is_symbol("(") and not _may_precede_bracket(token):
            return f'"{token.text}" is no function that is accepted here'
    if any(first.is_symbol(".") and third.is_symbol("(") for first, _, third in _triples(tokens)):
        return "it calls a function by the name of its schema"
    return None


def _may_precede_bracket(token: Token) -> bool:
    if token.kind is Kind.WORD:
        return token.text.upper() in _FUNCTIONS or token.text.upper() in _BEFORE_BRACKETS
    return token.kind is Kind.SYMBOL and token.text not in (")", "]", ".")


def _triples(tokens: tuple[Token, ...]) -> zip[tuple[Token, Token, Token]]:
    return zip(tokens, tokens[1:], tokens[2:], strict=False)
