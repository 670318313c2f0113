"""Spark's datetime patterns, compiled to regular expressions.

Source: Spark's page "Datetime Patterns for Formatting and Parsing" and ``DateTimeFormatterHelper``. Case is ignored,
names are English, fields missing in a pattern are those of 1970-01-01 00:00:00, and invalid days are refused. Letters
that cannot be mapped exactly are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cache

from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.model.time_zones import zone_of

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_SHORT = {name[:3].casefold(): number for number, name in enumerate(MONTHS, 1)}
_OFFSETS = {1: r"[+-]\d\d(?:\d\d)?", 2: r"[+-]\d\d\d\d", 3: r"[+-]\d\d:\d\d"}
_OFFSETS |= {4: r"[+-]\d\d\d\d(?:\d\d)?", 5: r"[+-]\d\d:\d\d(?::\d\d)?"}
_FIRST = {"y": 1970, "M": 1, "d": 1}
_PLAIN = {"M": "M", "L": "M", "d": "d", "H": "H", "h": "h", "K": "K", "k": "k", "m": "m", "s": "s"}
_MOST_LETTERS = 2


class InvalidPattern(ValueError):
    """The pattern is invalid or has unsupported letters; the message says which."""


@dataclass(frozen=True)
class Piece:
    """A part of a pattern: its regular expression, and the field that it sets, if any."""

    form: str
    field: str = ""
    read: Callable[[str], int] = int


class DatePattern:
    """A compiled datetime pattern.

    Attributes:
        form: its regular expression; case is ignored.
        pieces: the parts of a date or time in it, one for each of its groups.
    """

    def __init__(self, pattern: str) -> None:
        self.pieces: list[Piece] = []
        form = ""
        for piece in _pieces(pattern):
            if piece.field:
                form += f"(?P<g{len(self.pieces)}>{piece.form})"
                self.pieces.append(piece)
            else:
                form += piece.form
        fields = {piece.field for piece in self.pieces}
        if not fields:
            raise InvalidPattern("it has no part of a date or time")
        self.form = form
        self._compiled = re.compile(form, re.IGNORECASE)

    def read(self, text: str) -> tuple[datetime, tzinfo | None]:
        """Parse a text to a local time, and its zone if it has one.

        Raises:
            TypeMismatch: the text does not match, is not a date, or is outside the years 1 to 9999.
        """
        match = self._compiled.fullmatch(text)
        if match is None:
            raise TypeMismatch(text)
        parts = [(piece, match[f"g{number}"]) for number, piece in enumerate(self.pieces)]
        zones = [written for piece, written in parts if piece.field == "zone" and written]
        numbers = {piece.field: piece.read(written) for piece, written in parts if written and piece.field != "zone"}
        try:
            return _made(numbers), zone_of(_offset(zones[0])) if zones else None
        except (ValueError, OverflowError) as error:
            raise TypeMismatch(text) from error


@cache
def date_pattern(pattern: str) -> DatePattern:
    """Compile a pattern.

    Raises:
        InvalidPattern: it is invalid or has unsupported letters.
    """
    return DatePattern(pattern)


def _made(numbers: Mapping[str, int]) -> datetime:
    hour = numbers.get("H", numbers.get("k", 0) % 24)
    half = numbers.get("h", numbers.get("K"))
    if half is not None:
        hour = half % 12 + 12 * numbers.get("a", 0)
    if "k" in numbers and not 1 <= numbers["k"] <= 24:
        raise ValueError("no hour")
    if ("h" in numbers and not 1 <= numbers["h"] <= 12) or ("K" in numbers and numbers["K"] > 11):
        raise ValueError("no hour")
    clock = (hour, numbers.get("m", 0), numbers.get("s", 0), numbers.get("S", 0))
    year, month, day = (numbers.get(field, first) for field, first in _FIRST.items())
    local = datetime(year, month, day, *clock)  # noqa: DTZ001 - the zone comes with the text, or not
    if "D" not in numbers:
        return local
    local += timedelta(days=numbers["D"] - 1)
    if local.year != year or numbers["D"] < 1:
        raise ValueError("no day of the year")
    return local


def _offset(text: str) -> str:
    """Insert the colons into an offset, as in zone names."""
    if text[0] not in "+-":
        return text
    digits = text[1:].replace(":", "")
    return text[0] + ":".join(digits[index : index + 2] for index in range(0, len(digits), 2))


def _pieces(pattern: str) -> Iterator[Piece]:
    at, depth = 0, 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            text, at = _quoted(pattern, at)
            yield Piece(re.escape(text))
            continue
        if letter in "[]":
            depth += 1 if letter == "[" else -1
            if depth < 0:
                raise InvalidPattern('it has a "]" without a "["')
            yield Piece("(?:" if letter == "[" else ")?")
        elif letter.isascii() and letter.isalpha():
            count = len(pattern[at:]) - len(pattern[at:].lstrip(letter))
            yield _piece(letter, count)
            at += count
            continue
        elif letter in "{}#":
            raise InvalidPattern(f'"{letter}" is reserved')
        else:
            yield Piece(re.escape(letter))
        at += 1
    if depth:
        raise InvalidPattern('it has an unclosed "["')


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    """The quoted text that begins at a position, and the position after it; two quotes mean one."""
    found, at = "", at + 1
    while at < len(pattern):
        if pattern.startswith("''", at):
            found, at = found + "'", at + 2
        elif pattern[at] == "'":
            return found or "'", at + 1
        else:
            found, at = found + pattern[at], at + 1
    raise InvalidPattern("it has an unclosed quote")


def _piece(letter: str, count: int) -> Piece:
    piece = _of_day(letter, count) or _of_clock(letter, count) or _of_zone(letter, count)
    if piece is None:
        raise InvalidPattern(f'"{letter * count}" is not supported')
    return piece


def _of_day(letter: str, count: int) -> Piece | None:
    if letter in "yu" and count <= 6:
        if count == 2:
            return Piece(r"\d\d", "y", lambda text: 2000 + int(text))
        return Piece(rf"\d{{{count}}}" if count == 4 else rf"\d{{{count},10}}", "y")
    if letter in "ML" and count in (3, 4):
        names = "|".join(name if count == 4 else name[:3] for name in MONTHS)
        return Piece(names, "M", lambda text: _SHORT[text[:3].casefold()])
    if letter == "D" and count in (1, 3):
        return Piece(r"\d{3}" if count == 3 else r"\d{1,3}", "D")
    return None


def _of_clock(letter: str, count: int) -> Piece | None:
    if letter in _PLAIN and count <= _MOST_LETTERS:
        return Piece(r"\d\d" if count == 2 else r"\d{1,2}", _PLAIN[letter])
    if letter == "S" and count <= 9:
        return Piece(rf"\d{{1,{count}}}", "S", lambda text: int(text[:6].ljust(6, "0")))
    if letter == "a" and count == 1:
        return Piece("AM|PM", "a", lambda text: int(text.casefold() == "pm"))
    return None


def _of_zone(letter: str, count: int) -> Piece | None:
    if letter in "Xx" and count in _OFFSETS:
        return Piece(f"{_OFFSETS[count]}|Z" if letter == "X" else _OFFSETS[count], "zone")
    if letter == "Z" and count <= 3:
        return Piece(_OFFSETS[2], "zone")
    if letter == "V" and count == 2:
        return Piece(r"[A-Za-z][\w/+-]*(?::\d\d)?|[+-]\d\d(?::?\d\d){0,2}", "zone")
    return None
