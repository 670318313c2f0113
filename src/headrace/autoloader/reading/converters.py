"""How a text becomes a value of a type, with the patterns that a reader was given for dates and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from headrace.autoloader.ddl import JsonType
from headrace.autoloader.reading.arrow_types import decimal_of
from headrace.autoloader.reading.datetime_patterns import DatePattern, date_pattern
from headrace.autoloader.reading.values import (
    CSV_NAMES,
    RANGES,
    TypeMismatch,
    clock_face,
    day,
    decimal,
    floating,
    moment,
    whole,
    zone_of,
)

# By the type, the option that gives its pattern.
PATTERNS: Mapping[str, str] = {
    "date": "dateFormat",
    "timestamp": "timestampFormat",
    "timestamp_ntz": "timestampNTZFormat",
}

_NAMES_A_DAY = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}(?!\d)")


@dataclass(frozen=True)
class Times:
    """How dates and times are read: in a zone, and by patterns where there are any; else as ``CAST`` does it."""

    zone: tzinfo
    patterns: Mapping[str, DatePattern]

    @classmethod
    def of(cls, zone: str, options: Mapping[str, str]) -> Times:
        """What a reader in a zone is told by its options."""
        given = {kind: date_pattern(options[name]) for kind, name in PATTERNS.items() if name in options}
        return cls(zone_of(zone), given)

    def day(self, text: str) -> date:
        """A date.

        Raises:
            TypeMismatch: it is none.
        """
        pattern = self.patterns.get("date")
        return day(text) if pattern is None else pattern.read(text)[0].date()

    def moment(self, text: str) -> datetime:
        """A point in time.

        Raises:
            TypeMismatch: it is none.
        """
        pattern = self.patterns.get("timestamp")
        if pattern is None:
            return moment(text, self.zone)
        local, named = pattern.read(text)
        try:
            return local.replace(tzinfo=named or self.zone).astimezone(UTC)
        except (OverflowError, ValueError) as error:
            raise TypeMismatch(text) from error

    def is_moment(self, text: str) -> bool:
        """Whether a text whose type is to be told is a point in time: without a pattern, one that names a day.

        What ``CAST`` reads beyond that, such as ``2024`` or ``00501-02``, is a year, a zip code or a part's number.
        """
        if "timestamp" not in self.patterns and not _NAMES_A_DAY.match(text):
            return False
        try:
            self.moment(text)
        except TypeMismatch:
            return False
        return True

    def clock_face(self, text: str) -> datetime:
        """A time of no zone.

        Raises:
            TypeMismatch: it is none, or names a zone.
        """
        pattern = self.patterns.get("timestamp_ntz")
        if pattern is None:
            return clock_face(text)
        local, named = pattern.read(text)
        if named is not None:
            raise TypeMismatch(text)
        return local


def text_converter(kind: JsonType, times: Times) -> Callable[[str], Any] | None:
    """How a text becomes a value of a type that is not nested; None for a nested one."""
    digits = decimal_of(kind)
    if digits:
        return lambda text: decimal(text, *digits)
    if not isinstance(kind, str):
        return None
    if kind in RANGES:
        return lambda text: whole(text, kind)
    return {
        "string": lambda text: text,
        "boolean": _boolean,
        "float": lambda text: floating(text, CSV_NAMES),
        "double": lambda text: floating(text, CSV_NAMES),
        "date": times.day,
        "timestamp": times.moment,
        "timestamp_ntz": times.clock_face,
        "binary": lambda text: text.encode(),
    }.get(kind)


def _boolean(text: str) -> bool:
    folded = text.casefold()
    if folded not in ("true", "false"):
        raise TypeMismatch(text)
    return folded == "true"
