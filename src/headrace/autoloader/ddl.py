"""Column types as Spark's DDL spells them, read without Spark.

The grammar is that of ``colDefinitionList`` and ``dataType`` in Spark's ``SqlBaseParser.g4``: types nest, names may be
in backticks, ``:`` may stand between a field and its type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

JsonType = Any

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.)*')|(?P<word>\w+)|(?P<symbol>[<>(),.:]))"
)
_SIMPLE = {
    "boolean": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
    "binary": "binary",
    "variant": "variant",
}
_SIZED_TEXT = {"char", "character", "varchar"}
_DECIMALS = {"decimal", "dec", "numeric"}
_DEFAULT_PRECISION, _MAX_PRECISION = 10, 38


class InvalidDdl(ValueError):
    """A text is not what Spark's DDL spells; the message says what was found where."""


@dataclass(frozen=True)
class NamedType:
    """A name, in parts where dots stood in it, and the type that it is given."""

    path: tuple[str, ...]
    type: JsonType


@dataclass(frozen=True)
class _Piece:
    kind: str
    text: str
    start: int


def parse_named_types(text: str) -> tuple[NamedType, ...]:
    """Names with types from ``a INT, b.c STRING, `d e` ARRAY<INT>``, in order.

    Raises:
        InvalidDdl: the text is something else.
    """
    reading = _Reading(text)
    found = []
    while not reading.at_end:
        path = [reading.name()]
        while reading.takes("."):
            path.append(reading.name())
        reading.takes(":")
        found.append(NamedType(tuple(path), reading.type()))
        reading.skips_not_null_and_comment()
        if not reading.at_end:
            reading.expects(",")
    return tuple(found)


def parse_struct(text: str) -> JsonType:
    """The schema of columns that ``a INT, b STRING`` or ``STRUCT<a: INT, b: STRING>`` spells.

    Raises:
        InvalidDdl: the text is something else, or a name has parts.
    """
    if re.match(r"\s*struct\s*<", text, re.IGNORECASE):
        reading = _Reading(text)
        struct = reading.type()
        reading.ends()
        return struct
    named = parse_named_types(text)
    for entry in named:
        if len(entry.path) > 1:
            raise InvalidDdl(f"{'.'.join(entry.path)} has a dot; put a column name with a dot in backticks")
    return struct_of((entry.path[0], entry.type) for entry in named)


def struct_of(fields: Any) -> JsonType:
    """A struct of pairs of name and type; all may be null."""
    return {"type": "struct", "fields": [field_of(name, kind) for name, kind in fields]}


def field_of(name: str, kind: JsonType) -> dict[str, Any]:
    """A field that may be null."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def array_of(kind: JsonType) -> JsonType:
    """An array whose elements may be null."""
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(key: JsonType, value: JsonType) -> JsonType:
    """A map whose values may be null."""
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def nullable(kind: JsonType) -> JsonType:
    """The type with everything in it allowed to be null, as Spark's file sources read what they are given."""
    if isinstance(kind, list):
        return [nullable(entry) for entry in kind]
    if not isinstance(kind, dict):
        return kind
    flags = ("nullable", "containsNull", "valueContainsNull")
    return {
        key: True if key in flags else value if key == "metadata" else nullable(value) for key, value in kind.items()
    }


class _Reading:
    """A text, read from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[_Piece] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise InvalidDdl(f"{text[at]!r} at position {at + 1} is not part of a type")
            kind = str(match.lastgroup)
            self._pieces.append(_Piece(kind, match.group(kind), match.start(kind)))
            at = match.end()
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._pieces)

    def ends(self) -> None:
        if not self.at_end:
            raise self._unexpected("the end")

    def takes(self, symbol: str) -> bool:
        if not self.at_end and self._pieces[self._at].text == symbol:
            self._at += 1
            return True
        return False

    def expects(self, symbol: str) -> None:
        if not self.takes(symbol):
            raise self._unexpected(f'"{symbol}"')

    def name(self) -> str:
        if self.at_end or self._pieces[self._at].kind not in ("word", "quoted"):
            raise self._unexpected("a name")
        piece = self._pieces[self._at]
        self._at += 1
        return piece.text[1:-1].replace("``", "`") if piece.kind == "quoted" else piece.text

    def type(self) -> JsonType:
        if self.at_end or self._pieces[self._at].kind != "word":
            raise self._unexpected("a type")
        word = self._pieces[self._at].text.casefold()
        self._at += 1
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in _DECIMALS:
            return self._decimal()
        if word in _SIZED_TEXT:
            self._numbers(1)
            return "string"
        if word == "array":
            self.expects("<")
            element = self.type()
            self.expects(">")
            return array_of(element)
        if word == "map":
            self.expects("<")
            key = self.type()
            self.expects(",")
            value = self.type()
            self.expects(">")
            return map_of(key, value)
        if word == "struct":
            return self._struct()
        self._at -= 1
        raise self._unexpected("a type")

    def skips_not_null_and_comment(self) -> None:
        if self._word("not"):
            self._needs_word("null")
        if self._word("comment"):
            if self.at_end or self._pieces[self._at].kind != "text":
                raise self._unexpected("a quoted string")
            self._at += 1

    def _struct(self) -> JsonType:
        fields: list[tuple[str, JsonType]] = []
        self.expects("<")
        while not self.takes(">"):
            if fields:
                self.expects(",")
            name = self.name()
            self.takes(":")
            fields.append((name, self.type()))
            self.skips_not_null_and_comment()
        return struct_of(fields)

    def _decimal(self) -> str:
        sizes = self._numbers(2) if not self.at_end and self._pieces[self._at].text == "(" else []
        precision, scale = (*sizes, *(_DEFAULT_PRECISION, 0)[len(sizes) :])
        if not (0 < precision <= _MAX_PRECISION and scale <= precision):
            raise InvalidDdl(f"decimal({precision},{scale}) needs 1 to {_MAX_PRECISION} digits and a scale within them")
        return f"decimal({precision},{scale})"

    def _numbers(self, most: int) -> list[int]:
        found: list[int] = []
        self.expects("(")
        while not self.takes(")"):
            if found:
                self.expects(",")
            if self.at_end or not self._pieces[self._at].text.isdecimal() or len(found) == most:
                raise self._unexpected("a number" if len(found) < most else '")"')
            found.append(int(self._pieces[self._at].text))
            self._at += 1
        if not found:
            raise self._unexpected("a number")
        return found

    def _word(self, word: str) -> bool:
        if self.at_end or self._pieces[self._at].text.casefold() != word:
            return False
        self._at += 1
        return True

    def _needs_word(self, word: str) -> None:
        if not self._word(word):
            raise self._unexpected(word.upper())

    def _unexpected(self, wanted: str) -> InvalidDdl:
        if self.at_end:
            return InvalidDdl(f"expected {wanted} at the end of {self._text.strip()!r}")
        piece = self._pieces[self._at]
        return InvalidDdl(f"expected {wanted} but found {piece.text!r} at position {piece.start + 1}")
