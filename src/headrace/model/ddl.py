"""Parse column types in Spark's DDL, without Spark.

The grammar is that of ``colDefinitionList`` and ``dataType`` in Spark's ``SqlBaseParser.g4``: types nest, names can be
in backticks, and ``:`` can separate a field from its type.
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
    """A text is not valid DDL; the message says what was found where."""


@dataclass(frozen=True)
class NamedType:
    """A name, split at its dots, and its type."""

    path: tuple[str, ...]
    type: JsonType


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


def parse_named_types(text: str) -> tuple[NamedType, ...]:
    """Parse names with types, such as ``a INT, b.c STRING, `d e` ARRAY<INT>``, in order.

    Raises:
        InvalidDdl: the text is not of this form.
    """
    parser = _Parser(text)
    found = []
    while not parser.at_end:
        path = [parser.parse_name()]
        while parser.accept("."):
            path.append(parser.parse_name())
        parser.accept(":")
        found.append(NamedType(tuple(path), parser.parse_type()))
        parser.skip_not_null_and_comment()
        if not parser.at_end:
            parser.expect(",")
    return tuple(found)


def parse_struct(text: str) -> JsonType:
    """Parse a schema: ``a INT, b STRING`` or ``STRUCT<a: INT, b: STRING>``.

    Raises:
        InvalidDdl: the text is not of this form, or a name has a dot.
    """
    if re.match(r"\s*struct\s*<", text, re.IGNORECASE):
        parser = _Parser(text)
        struct = parser.parse_type()
        parser.expect_end()
        return struct
    named = parse_named_types(text)
    for entry in named:
        if len(entry.path) > 1:
            raise InvalidDdl(f"{'.'.join(entry.path)} has a dot; put a column name with a dot in backticks")
    return struct_of((entry.path[0], entry.type) for entry in named)


def struct_of(fields: Any) -> JsonType:
    """A struct with these names and types; all fields are nullable."""
    return {"type": "struct", "fields": [field_of(name, kind) for name, kind in fields]}


def field_of(name: str, kind: JsonType) -> dict[str, Any]:
    """A nullable field."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def array_of(kind: JsonType) -> JsonType:
    """An array with nullable elements."""
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(key: JsonType, value: JsonType) -> JsonType:
    """A map with nullable values."""
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def nullable(kind: JsonType) -> JsonType:
    """The type with everything in it nullable, as Spark's file sources treat a given schema."""
    if isinstance(kind, list):
        return [nullable(entry) for entry in kind]
    if not isinstance(kind, dict):
        return kind
    flags = ("nullable", "containsNull", "valueContainsNull")
    return {
        key: True if key in flags else value if key == "metadata" else nullable(value) for key, value in kind.items()
    }


class _Parser:
    """A recursive descent parser over one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[_Token] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                position += len(text[position:]) - len(text[position:].lstrip())
                raise InvalidDdl(f"{text[position]!r} at position {position + 1} is not part of a type")
            kind = str(match.lastgroup)
            self._tokens.append(_Token(kind, match.group(kind), match.start(kind)))
            position = match.end()
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._tokens)

    def expect_end(self) -> None:
        if not self.at_end:
            raise self._unexpected("the end")

    def accept(self, symbol: str) -> bool:
        if not self.at_end and self._tokens[self._position].text == symbol:
            self._position += 1
            return True
        return False

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            raise self._unexpected(f'"{symbol}"')

    def parse_name(self) -> str:
        if self.at_end or self._tokens[self._position].kind not in ("word", "quoted"):
            raise self._unexpected("a name")
        token = self._tokens[self._position]
        self._position += 1
        return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text

    def parse_type(self) -> JsonType:
        if self.at_end or self._tokens[self._position].kind != "word":
            raise self._unexpected("a type")
        word = self._tokens[self._position].text.casefold()
        self._position += 1
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in _DECIMALS:
            return self._parse_decimal()
        if word in _SIZED_TEXT:
            self._parse_numbers(1)
            return "string"
        if word == "array":
            self.expect("<")
            element = self.parse_type()
            self.expect(">")
            return array_of(element)
        if word == "map":
            self.expect("<")
            key = self.parse_type()
            self.expect(",")
            value = self.parse_type()
            self.expect(">")
            return map_of(key, value)
        if word == "struct":
            return self._parse_struct()
        self._position -= 1
        raise self._unexpected("a type")

    def skip_not_null_and_comment(self) -> None:
        if self._accept_word("not"):
            self._expect_word("null")
        if self._accept_word("comment"):
            if self.at_end or self._tokens[self._position].kind != "text":
                raise self._unexpected("a quoted string")
            self._position += 1

    def _parse_struct(self) -> JsonType:
        fields: list[tuple[str, JsonType]] = []
        self.expect("<")
        while not self.accept(">"):
            if fields:
                self.expect(",")
            name = self.parse_name()
            self.accept(":")
            fields.append((name, self.parse_type()))
            self.skip_not_null_and_comment()
        return struct_of(fields)

    def _parse_decimal(self) -> str:
        sizes = self._parse_numbers(2) if not self.at_end and self._tokens[self._position].text == "(" else []
        precision, scale = (*sizes, *(_DEFAULT_PRECISION, 0)[len(sizes) :])
        if not (0 < precision <= _MAX_PRECISION and scale <= precision):
            raise InvalidDdl(f"decimal({precision},{scale}) needs 1 to {_MAX_PRECISION} digits and a scale within them")
        return f"decimal({precision},{scale})"

    def _parse_numbers(self, limit: int) -> list[int]:
        found: list[int] = []
        self.expect("(")
        while not self.accept(")"):
            if found:
                self.expect(",")
            if self.at_end or not self._tokens[self._position].text.isdecimal() or len(found) == limit:
                raise self._unexpected("a number" if len(found) < limit else '")"')
            found.append(int(self._tokens[self._position].text))
            self._position += 1
        if not found:
            raise self._unexpected("a number")
        return found

    def _accept_word(self, word: str) -> bool:
        if self.at_end or self._tokens[self._position].text.casefold() != word:
            return False
        self._position += 1
        return True

    def _expect_word(self, word: str) -> None:
        if not self._accept_word(word):
            raise self._unexpected(word.upper())

    def _unexpected(self, expected: str) -> InvalidDdl:
        if self.at_end:
            return InvalidDdl(f"expected {expected} at the end of {self._text.strip()!r}")
        token = self._tokens[self._position]
        return InvalidDdl(f"expected {expected} but found {token.text!r} at position {token.start + 1}")
