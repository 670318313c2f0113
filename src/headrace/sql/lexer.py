"""Pieces of a SQL text with their exact places, read as Spark reads them.

sqlglot's tokenizer finds the pieces, with its keywords switched off: a keyword would come back in capitals, joined to
its neighbour, or with the rest of the statement swallowed. Words are compared by the grammar instead.
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
    """What a piece is. A number such as ``10L`` is a WORD, because it may also be part of a name (``t.2024_q1``)."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True)
class Token:
    """One piece: ``text`` as written, from ``start`` up to ``end`` of the text it was read from.

    ``parameter`` names the parameter that the piece came from, whose value is not to be printed.
    """

    kind: Kind
    text: str
    start: int
    end: int
    line: int
    parameter: str | None = None

    def is_word(self, *words: str) -> bool:
        """True for an unquoted word that is one of *words*, which are in capitals."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_symbol(self, *symbols: str) -> bool:
        """True for one of *symbols*, each a single character."""
        return self.kind is Kind.SYMBOL and self.text in symbols

    @property
    def is_name(self) -> bool:
        """True for what can be a part of a name."""
        return self.kind in (Kind.WORD, Kind.QUOTED)


@dataclass(frozen=True)
class Lexed:
    """The pieces of a text. ``unclosed`` opens a string, quoted name or comment that never ends."""

    tokens: tuple[Token, ...]
    unclosed: Token | None = None


class Lines:
    """Line numbers, from 1, of the offsets of a text; LF, CRLF and CR end a line."""

    def __init__(self, text: str) -> None:
        self._starts = [match.end() for match in _LINE_END.finditer(text)]

    def at(self, offset: int) -> int:
        """The line that *offset* is in."""
        return bisect_right(self._starts, offset) + 1


def lex(text: str) -> Lexed:
    """Everything but space and comments, up to the first piece that is not closed."""
    lines = Lines(text)
    try:
        return Lexed(tuple(_tokens(text, lines)))
    except TokenError:
        start = _unclosed_at(text)
        opener = _OPENER.match(text, start)
        found = opener.group() if opener else text[start : start + 1]
        unclosed = Token(Kind.SYMBOL, found, start, len(text), lines.at(start))
        return Lexed(tuple(_tokens(text[:start], lines)), unclosed)


def closings(tokens: Sequence[Token]) -> dict[int, int]:
    """The index of each opening bracket, round or square, that is closed, with the index of what closes it."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.is_symbol("(", "["):
            opened.append(index)
        elif token.is_symbol(")", "]"):
            # What was opened inside and never closed does not hide the pair around it.
            partner = next((at for at in reversed(opened) if _BRACKETS[tokens[at].text] == token.text), None)
            if partner is not None:
                pairs[partner] = index
                del opened[opened.index(partner) :]
    return pairs


def unquoted(token: Token) -> str:
    """The value of a string: what it says between its quotes, escapes resolved as Spark does."""
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
    """True when two strings are the halves of one that holds a doubled quote."""
    return (
        first.kind is second.kind is Kind.STRING
        and first.end == second.start
        and first.text[0] == second.text[0]
        and first.text[0] in "'\""
    )


def _unclosed_at(text: str) -> int:
    """Where the piece begins that is not closed: the last opener with nothing open before it."""
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
        # Not a character: left as written, so that the reader sees it.
        return chr(code) if code <= 0x10FFFF else match.group()
    return chr(int(escape, 8))


def separated(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """What stands between commas, but for those in brackets; nothing behind the last comma is none."""
    depth, begin = 0, 0
    for place, token in enumerate(tokens):
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if depth == 0 and token.is_symbol(","):
            yield tokens[begin:place]
            begin = place + 1
    if tokens[begin:]:
        yield tokens[begin:]
