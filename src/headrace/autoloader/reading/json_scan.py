"""Parse JSON and keep the original text of numbers, and on request of objects and arrays.

Two parsers give the same values: the C parser of Python's ``json``, and a scanner in this module. The scanner handles
input that only Spark allows (names in single quotes, ``NaN``, comments) and keeps the texts of objects and arrays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_NON_NUMERIC = re.compile(r"NaN|[+-]?Infinity|[+-]INF")
# As in Jackson, a name can also begin with digits and some signs.
_UNQUOTED_NAME = re.compile(r"[\w$@#*+\-\x7f-\U0010ffff]+")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_FOUR_DIGITS = re.compile(r"[0-9a-fA-F]{4}")
_PLAIN_CHARACTERS = re.compile(r"[^\"'\\\x00-\x1f]+")
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = r"/\*[^\x00-\x08\x0b\x0c\x0e-\x1f]*?\*/|//[^\x00-\x08\x0a-\x0c\x0e-\x1f]*"
_SPACE_AND_COMMENTS = re.compile(rf"(?:[ \t\r\n]+|{_COMMENT})*")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class NotJson(ValueError):
    """A text is not one JSON value."""


class Number(str):
    """A number in its original text; includes ``NaN`` and infinities if they are allowed."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is written as a whole number."""
        return self.lstrip("-").isdecimal()


class Members(list[tuple[str, Any]]):
    """An object: names and values in order, including repeated names; ``text`` is its original text, if kept."""

    text: str | None = None


class Elements(list[Any]):
    """An array; ``text`` is its original text, if kept."""

    text: str | None = None


@dataclass(frozen=True)
class ParseOptions:
    """Allowed deviations from JSON, as in Spark's options."""

    single_quotes: bool = True
    unquoted_names: bool = False
    comments: bool = False
    leading_zeros: bool = False
    non_numeric_numbers: bool = True
    any_escape: bool = False
    control_characters: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ParseOptions:
        """The deviations that a reader's options allow."""
        names = {
            "single_quotes": "allowSingleQuotes",
            "unquoted_names": "allowUnquotedFieldNames",
            "comments": "allowComments",
            "leading_zeros": "allowNumericLeadingZeros",
            "non_numeric_numbers": "allowNonNumericNumbers",
            "any_escape": "allowBackslashEscapingAnyCharacter",
            "control_characters": "allowUnquotedControlChars",
        }
        return cls(**{field: options[name] == "true" for field, name in names.items() if name in options})


def _refuse_constant(text: str) -> Any:
    raise NotJson(text)


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_refuse_constant, object_pairs_hook=Members
)


def read_json(text: str, parse_options: ParseOptions) -> Any:
    """Parse the first value of a text: ``Members``, list, str, ``Number``, bool or None; ignore the rest.

    Raises:
        NotJson: the text does not begin with a value.
    """
    return read_json_at(text, 0, parse_options, exactly=has_surrogate_escapes(text))[0]


def has_surrogate_escapes(text: str) -> bool:
    """Whether a text may contain escaped surrogates, which only the exact scanner combines."""
    return "\\u" in text and _SURROGATE_ESCAPE.search(text) is not None


def read_json_at(text: str, at: int, parse_options: ParseOptions, *, exactly: bool) -> tuple[Any, int, bool]:
    """Parse the value at a position; return it, its end, and whether the exact scanner was needed.

    Raises:
        NotJson: there is no value.
    """
    if not exactly:
        begin = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        try:
            return *_DECODER.raw_decode(text, begin), False
        except ValueError:
            pass
        except RecursionError as error:
            raise NotJson("it nests too deep") from error
    scanner = _Scanner(text, parse_options, at)
    try:
        return scanner.read_value(), scanner.at, True
    except (IndexError, RecursionError) as error:
        raise NotJson("it ends too early, or nests too deep") from error


def read_json_exactly(text: str, parse_options: ParseOptions) -> Any:
    """As :func:`read_json`, but keep the texts of objects and arrays.

    Raises:
        NotJson: the text does not begin with a value.
    """
    return read_json_at(text, 0, parse_options, exactly=True)[0]


def skip_space(text: str, at: int, parse_options: ParseOptions) -> int:
    """The position after spaces, and after comments if they are allowed."""
    return (_SPACE_AND_COMMENTS if parse_options.comments else _SPACE).match(text, at).end()  # type: ignore[union-attr]


def is_blank(text: str, parse_options: ParseOptions) -> bool:
    """Whether a text is only spaces, and comments if they are allowed."""
    return bool((_SPACE_AND_COMMENTS if parse_options.comments else _SPACE).fullmatch(text))


class _Scanner:
    def __init__(self, text: str, parse_options: ParseOptions, at: int) -> None:
        self._text = text
        self._allows = parse_options
        self._position = at
        self._between = _SPACE_AND_COMMENTS if parse_options.comments else _SPACE

    @property
    def at(self) -> int:
        """The current position."""
        return self._position

    def read_value(self) -> Any:
        self._skip()
        begin = self._position
        character = self._text[begin]
        if character == "{":
            members = self._read_members()
            members.text = self._text[begin : self._position]
            return members
        if character == "[":
            elements = self._read_elements()
            elements.text = self._text[begin : self._position]
            return elements
        if character == '"' or (character == "'" and self._allows.single_quotes):
            # As in Jackson, a string in single quotes never allows control characters.
            return self._read_string(self._allows.control_characters and character == '"')
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._text.startswith(word, begin):
                self._position += len(word)
                return value
        return self._read_number()

    def _read_members(self) -> Members:
        members = Members()
        self._position += 1
        while not self._accept("}"):
            if members and not self._accept(","):
                raise self._unexpected()
            self._skip()
            members.append((self._read_name(), self._read_member_value()))
        return members

    def _read_member_value(self) -> Any:
        if not self._accept(":"):
            raise self._unexpected()
        return self.read_value()

    def _read_elements(self) -> Elements:
        elements = Elements()
        self._position += 1
        while not self._accept("]"):
            if elements and not self._accept(","):
                raise self._unexpected()
            elements.append(self.read_value())
        return elements

    def _read_name(self) -> str:
        character = self._text[self._position]
        if character == '"' or (character == "'" and self._allows.single_quotes):
            return self._read_string(self._allows.control_characters)
        unquoted = _UNQUOTED_NAME.match(self._text, self._position) if self._allows.unquoted_names else None
        if unquoted is None:
            raise self._unexpected()
        self._position = unquoted.end()
        return unquoted.group()

    def _read_string(self, control_characters: bool) -> str:  # noqa: FBT001 - as the reader allows them
        text, quote = self._text, self._text[self._position]
        self._position += 1
        pieces = []
        while (character := text[self._position]) != quote:
            if (run := _PLAIN_CHARACTERS.match(text, self._position)) is not None:
                pieces.append(run.group())
                self._position = run.end()
                continue
            self._position += 1
            if character == "\\":
                pieces.append(self._read_escape())
            elif character < " " and not control_characters:
                raise self._unexpected()
            else:
                pieces.append(character)
        self._position += 1
        # Two escaped surrogates make one character; Java writes a lone surrogate as "?".
        whole = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return whole.encode("utf-8", "replace").decode()

    def _read_escape(self) -> str:
        character = self._text[self._position]
        self._position += 1
        if character == "u":
            digits = _FOUR_DIGITS.match(self._text, self._position)
            if digits is None:
                raise self._unexpected()
            self._position = digits.end()
            return chr(int(digits.group(), 16))
        if character in _ESCAPES or self._allows.any_escape or (character == "'" and self._allows.single_quotes):
            return _ESCAPES.get(character, character)
        raise self._unexpected()

    def _read_number(self) -> Number:
        match = _NUMBER.match(self._text, self._position)
        if match and (self._allows.leading_zeros or _PLAIN_NUMBER.match(match.group())):
            self._position = match.end()
            return Number(match.group())
        named = _NON_NUMERIC.match(self._text, self._position) if self._allows.non_numeric_numbers else None
        if named is None:
            raise self._unexpected()
        self._position = named.end()
        return Number(named.group())

    def _accept(self, symbol: str) -> bool:
        self._skip()
        if self._text[self._position] != symbol:
            return False
        self._position += 1
        return True

    def _skip(self) -> None:
        self._position = self._between.match(self._text, self._position).end()  # type: ignore[union-attr]

    def _unexpected(self) -> NotJson:
        return NotJson(f"{self._text[self._position : self._position + 10]!r} at position {self._position + 1}")


def to_json_text(value: Any) -> str:
    """Serialise a value as JSON; numbers, and objects and arrays with a kept text, in their original text."""
    if isinstance(value, Number):
        return str(value) if not _NON_NUMERIC.fullmatch(value) else json.dumps(str(value))
    if isinstance(value, (Members, Elements)) and value.text is not None:
        return value.text
    if isinstance(value, Members):
        return (
            "{"
            + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{to_json_text(inner)}" for name, inner in value)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(to_json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
