"""JSON texts with the spelling of their numbers, and of whatever is asked for as text, kept.

Two readers give the same values: the one in C of Python's ``json``, and one written out here for what that one refuses
and Spark allows (names in single quotes, ``NaN``, comments), and for the exact texts of objects and arrays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_NOT_NUMBERS = re.compile(r"NaN|[+-]?Infinity|[+-]INF")
# As Jackson has it, digits and some signs may begin one too.
_BARE_NAME = re.compile(r"[\w$@#*+\-\x7f-\U0010ffff]+")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_FOUR_DIGITS = re.compile(r"[0-9a-fA-F]{4}")
_PLAIN_LETTERS = re.compile(r"[^\"'\\\x00-\x1f]+")
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = r"/\*[^\x00-\x08\x0b\x0c\x0e-\x1f]*?\*/|//[^\x00-\x08\x0a-\x0c\x0e-\x1f]*"
_SPACE_AND_COMMENTS = re.compile(rf"(?:[ \t\r\n]+|{_COMMENT})*")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class NotJson(ValueError):
    """A text that is not one JSON value."""


class Number(str):
    """A number as it is written; ``NaN`` and the infinities are numbers too where they are allowed."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is written as a whole number."""
        return self.lstrip("-").isdecimal()


class Members(list[tuple[str, Any]]):
    """An object: names and values in order, repeated names included; ``text`` is how it is written, when kept."""

    text: str | None = None


class Elements(list[Any]):
    """An array; ``text`` is how it is written, when kept."""

    text: str | None = None


@dataclass(frozen=True)
class ParseOptions:
    """What is allowed beside JSON, by the names of Spark's options."""

    single_quotes: bool = True
    bare_names: bool = False
    comments: bool = False
    leading_zeros: bool = False
    not_numbers: bool = True
    any_escape: bool = False
    control_characters: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ParseOptions:
        """What the options of a reader allow."""
        names = {
            "single_quotes": "allowSingleQuotes",
            "bare_names": "allowUnquotedFieldNames",
            "comments": "allowComments",
            "leading_zeros": "allowNumericLeadingZeros",
            "not_numbers": "allowNonNumericNumbers",
            "any_escape": "allowBackslashEscapingAnyCharacter",
            "control_characters": "allowUnquotedControlChars",
        }
        return cls(**{field: options[name] == "true" for field, name in names.items() if name in options})


def _refuse_constant(text: str) -> Any:
    raise NotJson(text)


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_refuse_constant, object_pairs_hook=Members
)


def read_json(text: str, leniency: ParseOptions) -> Any:
    """The first value of a text: ``Members``, list, str, ``Number``, bool or None; what follows it is left.

    Raises:
        NotJson: it begins with no value.
    """
    return read_json_at(text, 0, leniency, exactly=has_half_characters(text))[0]


def has_half_characters(text: str) -> bool:
    """Whether a text may spell half of a character, which only the exact reader repairs."""
    return "\\u" in text and _HALF.search(text) is not None


def read_json_at(text: str, at: int, leniency: ParseOptions, *, exactly: bool) -> tuple[Any, int, bool]:
    """The value that begins at a place of a text, where it ends, and whether the exact reader was needed for it.

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
    scanner = _Scanner(text, leniency, at)
    try:
        return scanner.value(), scanner.at, True
    except (IndexError, RecursionError) as error:
        raise NotJson("it ends too early, or nests too deep") from error


def read_json_exactly(text: str, leniency: ParseOptions) -> Any:
    """As :func:`read_json`, with the texts of objects and arrays.

    Raises:
        NotJson: it begins with no value.
    """
    return read_json_at(text, 0, leniency, exactly=True)[0]


def space_behind(text: str, at: int, leniency: ParseOptions) -> int:
    """Where the spaces end that begin at a place, and the comments where they are allowed."""
    return (_SPACE_AND_COMMENTS if leniency.comments else _SPACE).match(text, at).end()  # type: ignore[union-attr]


def says_nothing(text: str, leniency: ParseOptions) -> bool:
    """Whether a text is nothing but spaces, and comments where they are allowed."""
    return bool((_SPACE_AND_COMMENTS if leniency.comments else _SPACE).fullmatch(text))


class _Scanner:
    def __init__(self, text: str, leniency: ParseOptions, at: int) -> None:
        self._text = text
        self._allows = leniency
        self._at = at
        self._between = _SPACE_AND_COMMENTS if leniency.comments else _SPACE

    @property
    def at(self) -> int:
        """How far it has read."""
        return self._at

    def value(self) -> Any:
        self._skip()
        begin = self._at
        letter = self._text[begin]
        if letter == "{":
            members = self._members()
            members.text = self._text[begin : self._at]
            return members
        if letter == "[":
            elements = self._elements()
            elements.text = self._text[begin : self._at]
            return elements
        if letter == '"' or (letter == "'" and self._allows.single_quotes):
            # As Jackson has it, a value in single quotes has none of them, whatever is allowed.
            return self._string(self._allows.control_characters and letter == '"')
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._text.startswith(word, begin):
                self._at += len(word)
                return value
        return self._number()

    def _members(self) -> Members:
        members = Members()
        self._at += 1
        while not self._takes("}"):
            if members and not self._takes(","):
                raise self._unexpected()
            self._skip()
            members.append((self._name(), self._valued()))
        return members

    def _valued(self) -> Any:
        if not self._takes(":"):
            raise self._unexpected()
        return self.value()

    def _elements(self) -> Elements:
        elements = Elements()
        self._at += 1
        while not self._takes("]"):
            if elements and not self._takes(","):
                raise self._unexpected()
            elements.append(self.value())
        return elements

    def _name(self) -> str:
        letter = self._text[self._at]
        if letter == '"' or (letter == "'" and self._allows.single_quotes):
            return self._string(self._allows.control_characters)
        bare = _BARE_NAME.match(self._text, self._at) if self._allows.bare_names else None
        if bare is None:
            raise self._unexpected()
        self._at = bare.end()
        return bare.group()

    def _string(self, control_characters: bool) -> str:  # noqa: FBT001 - as the reader allows them
        text, quote = self._text, self._text[self._at]
        self._at += 1
        pieces = []
        while (letter := text[self._at]) != quote:
            if (run := _PLAIN_LETTERS.match(text, self._at)) is not None:
                pieces.append(run.group())
                self._at = run.end()
                continue
            self._at += 1
            if letter == "\\":
                pieces.append(self._escaped())
            elif letter < " " and not control_characters:
                raise self._unexpected()
            else:
                pieces.append(letter)
        self._at += 1
        # Escapes may write one character as the two halves that UTF-16 has for it; a half alone Java writes as "?".
        whole = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return whole.encode("utf-8", "replace").decode()

    def _escaped(self) -> str:
        letter = self._text[self._at]
        self._at += 1
        if letter == "u":
            digits = _FOUR_DIGITS.match(self._text, self._at)
            if digits is None:
                raise self._unexpected()
            self._at = digits.end()
            return chr(int(digits.group(), 16))
        if letter in _ESCAPES or self._allows.any_escape or (letter == "'" and self._allows.single_quotes):
            return _ESCAPES.get(letter, letter)
        raise self._unexpected()

    def _number(self) -> Number:
        match = _NUMBER.match(self._text, self._at)
        if match and (self._allows.leading_zeros or _PLAIN_NUMBER.match(match.group())):
            self._at = match.end()
            return Number(match.group())
        named = _NOT_NUMBERS.match(self._text, self._at) if self._allows.not_numbers else None
        if named is None:
            raise self._unexpected()
        self._at = named.end()
        return Number(named.group())

    def _takes(self, symbol: str) -> bool:
        self._skip()
        if self._text[self._at] != symbol:
            return False
        self._at += 1
        return True

    def _skip(self) -> None:
        self._at = self._between.match(self._text, self._at).end()  # type: ignore[union-attr]

    def _unexpected(self) -> NotJson:
        return NotJson(f"{self._text[self._at : self._at + 10]!r} at position {self._at + 1}")


def written(value: Any) -> str:
    """A value as JSON, with numbers as they were; objects and arrays as they were where that is known."""
    if isinstance(value, Number):
        return str(value) if not _NOT_NUMBERS.fullmatch(value) else json.dumps(str(value))
    if isinstance(value, (Members, Elements)) and value.text is not None:
        return value.text
    if isinstance(value, Members):
        return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{written(inner)}" for name, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
