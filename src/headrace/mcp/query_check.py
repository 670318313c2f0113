"""Keeps queries of an assistant within the tables of the project: no files by path, no variables of the process.

``headrace sql`` reads those for its user. An assistant may be led by a text in the data to read them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.errors import PipelineError
from headrace.sql.lexer import Kind, Token, lex, unquoted

# Spark replaces ${name} by settings, properties and environment variables, also within strings.
_VARIABLE = re.compile(r"\$\{[^}]*\}?")
# Functions that read what their arguments name, or call a method of Java, such as System.getenv.
_READERS = (
    *("READ_FILES", "CLOUD_FILES", "READ_KAFKA", "READ_KINESIS", "IDENTIFIER"),
    *("REFLECT", "TRY_REFLECT", "JAVA_METHOD"),
)
# As the first part of a table's name, they read the file that the second part names.
_FORMATS = frozenset(
    ("avro", "binaryfile", "cloudfiles", "csv", "delta", "image", "json", "libsvm", "orc", "parquet", "text", "xml")
)
_PATH = re.compile(r"[/\\:]")


def check_reads_tables(query: str) -> None:
    """Accept a query that names only tables.

    Raises:
        PipelineError: MCP.NOT_A_TABLE.
    """
    variable = _VARIABLE.search(query)
    if variable is not None:
        raise PipelineError("MCP.NOT_A_TABLE", what=variable[0])
    tokens = lex(query).tokens
    for index, token in enumerate(tokens):
        if token.is_name and _is_reader(tokens, index):
            raise PipelineError("MCP.NOT_A_TABLE", what=f"{_name(token)}(...)")
        if token.is_symbol(".") and 0 < index < len(tokens) - 1 and _is_file(tokens[index - 1], tokens[index + 1]):
            raise PipelineError("MCP.NOT_A_TABLE", what=f"{tokens[index - 1].text}.{tokens[index + 1].text}")


def _is_reader(tokens: Sequence[Token], index: int) -> bool:
    called = tokens[index + 1 : index + 2]
    return _name(tokens[index]).upper() in _READERS and bool(called) and called[0].is_symbol("(")


def _is_file(first: Token, second: Token) -> bool:
    """Whether two parts of a name are a format, or its class, and a path."""
    if not (first.is_name and second.is_name):
        return False
    is_format = _name(first).casefold() in _FORMATS or (first.kind is Kind.QUOTED and "." in _name(first))
    return is_format or (second.kind is Kind.QUOTED and _PATH.search(_name(second)) is not None)


def _name(token: Token) -> str:
    return unquoted(token) if token.kind is Kind.QUOTED else token.text
