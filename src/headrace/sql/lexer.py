"""Splits a SQL text into tokens with exact positions, as Spark does.

Uses sqlglot's tokenizer with its keywords switched off: a keyword would be returned in upper case, joined to its
neighbour, or with the rest of the statement swallowed. The grammar compares words instead.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar

from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import TokenError

_LINE_END = re.compile(r"\r\n|\r|\n")
_OPENER = re.compile(r"['\"`]|/\*|\{#")
_WORD = re.compile(r"\w+")
_BRACKETS = {"(": ")", "[": "]"}


class Kind(Enum):
    """The kind of a token. A number such as ``10L`` is a WORD, because it may be part of a name (``t.2024_q1``)."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True)
class Token:
    """One token: ``text`` as written, from ``start`` up to ``end`` of the source text.

    ``parameter`` is the name of the parameter that the token came from; its value must not be printed.
    """

    kind: Kind
    text: str
    start: int
    end: int
    line: int
    parameter: str | None = None

    def is_word(self, *words: str) -> bool:
        """True for an unquoted word that is one of *words*, given in upper case."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_symbol(self, *symbols: str) -> bool:
        """True for one of *symbols*, each a single character."""
        return self.kind is Kind.SYMBOL and self.text in symbols

    @property
    def is_name(self) -> bool:
        """True if the token can be part of a name."""
        return self.kind in (Kind.WORD, Kind.QUOTED)


@dataclass(frozen=True)
class Lexed:
    """The tokens of a text. ``unclosed`` opens a string, quoted name or comment that never ends."""

    tokens: tuple[Token, ...]
    unclosed: Token | None = None


class Lines:
    """Line numbers, from 1, of the offsets of a text; LF, CRLF and CR end a line."""

    def __init__(self, text: str) -> None:
        self._starts = [match.end() for match in _LINE_END.finditer(text)]

    def at(self, offset: int) -> int:
        """The line of *offset*."""
        return bisect_right(self._starts, offset) + 1


def lex(text: str) -> Lexed:
    """The tokens of a text without whitespace and comments, up to the first token that is not closed."""
    lines = Lines(text)
    try:
        return Lexed(tuple(_tokens(text, lines)))
    except TokenError:
        start = _unclosed_at(text)
        opener = _OPENER.match(text, start)
        found = opener.group() if opener else text[start : start + 1]
        unclosed = Token(Kind.SYMBOL, found, start, len(text), lines.at(start))
        return Lexed(tuple(_tokens(text[:start], lines)), unclosed)


def bracket_pairs(tokens: Sequence[Token]) -> dict[int, int]:
    """The index of each closed opening bracket, round or square, with the index of its closing bracket."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.is_symbol("(", "["):
            opened.append(index)
        elif token.is_symbol(")", "]"):
            # An unclosed bracket inside does not hide the pair around it.
            partner = next((one for one in reversed(opened) if _BRACKETS[tokens[one].text] == token.text), None)
            if partner is not None:
                pairs[partner] = index
                del opened[opened.index(partner) :]
    return pairs


def unquoted(token: Token) -> str:
    """The value of a string without its quotes, with escapes resolved as in Spark."""
    if token.text[0] in "rR":
        return token.text[2:-1]
    quote = token.text[0]
    return _ESCAPE.sub(_unescaped, token.text[1:-1].replace(quote * 2, quote))


class _Tokenizer(Databricks.Tokenizer):
    KEYWORDS: ClassVar[dict[str, Any]] = {}
    COMMANDS: ClassVar[set[Any]] = set()
    NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}
    HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
    BIT_STRINGS: ClassVar[list[str | tuple[str, str]]] = []


def _tokens(text: str, lines: Lines) -> Iterator[Token]:
    last: Token | None = None
    for found in _Tokenizer(dialect="databricks").tokenize(text):
        start, end = found.start, found.end + 1
        piece = text[start:end]
        token = Token(_kind(piece), piece, start, end, lines.at(start))
        if last is not None and _doubled_quote(last, token):
            last = replace(last, text=last.text + token.text, end=token.end)
            continue
        if last is not None:
            yield last
        last = token
    if last is not None:
        yield last


def _kind(piece: str) -> Kind:
    if piece[0] == "`":
        return Kind.QUOTED
    if piece[-1] in "'\"":
        return Kind.STRING
    if _WORD.fullmatch(piece):
        return Kind.WORD
    return Kind.NUMBER if piece[0].isdigit() else Kind.SYMBOL


def _doubled_quote(first: Token, second: Token) -> bool:
    """True if two strings are the halves of one with a doubled quote."""
    return (
        first.kind is second.kind is Kind.STRING
        and first.end == second.start
        and first.text[0] == second.text[0]
        and first.text[0] in "'\""
    )


def _unclosed_at(text: str) -> int:
    """The start of the unclosed token: the last opener with nothing open before it."""
    for opener in reversed(list(_OPENER.finditer(text))):
        try:
            _Tokenizer(dialect="databricks").tokenize(text[: opener.start()])
        except TokenError:
            continue
        return opener.start()
    return 0


_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _unescaped(match: re.Match[str]) -> str:
    escape: str = match.group(1)
    if len(escape) == 1:
        return _ESCAPES.get(escape, escape)
    if escape[0] in "uU":
        code = int(escape[1:], 16)
        # Not a character: left as written, so that the user sees it.
        return chr(code) if code <= 0x10FFFF else match.group()
    return chr(int(escape, 8))


def split_at_commas(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens between commas outside of brackets; ignores a trailing comma."""
    depth, begin = 0, 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if depth == 0 and token.is_symbol(","):
            yield tokens[begin:index]
            begin = index + 1
    if tokens[begin:]:
        yield tokens[begin:]
