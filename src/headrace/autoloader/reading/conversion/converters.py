"""Convert texts to values of a type, with the reader's patterns for dates and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from headrace.autoloader.reading.conversion.arrow_types import decimal_of
from headrace.autoloader.reading.conversion.datetime_patterns import DatePattern, date_pattern
from headrace.autoloader.reading.conversion.values import (
    CSV_NAMES,
    RANGES,
    TypeMismatch,
    parse_date,
    parse_decimal,
    parse_floating,
    parse_integer,
    parse_timestamp,
    parse_timestamp_ntz,
)
from headrace.model.ddl import JsonType
from headrace.model.time_zones import zone_of

# For each type, the option with its pattern.
PATTERNS: Mapping[str, str] = {
    "date": "dateFormat",
    "timestamp": "timestampFormat",
    "timestamp_ntz": "timestampNTZFormat",
}

_NAMES_A_DAY = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}(?!\d)")


@dataclass(frozen=True)
class Times:
    """Parses dates and times in a zone, by patterns if there are any, otherwise like ``CAST``."""

    zone: tzinfo
    patterns: Mapping[str, DatePattern]

    @classmethod
    def of(cls, zone: str, options: Mapping[str, str]) -> Times:
        """The patterns in a reader's options."""
        given = {kind: date_pattern(options[name]) for kind, name in PATTERNS.items() if name in options}
        return cls(zone_of(zone), given)

    def parse_date(self, text: str) -> date:
        """Parse a date.

        Raises:
            TypeMismatch: the text is not a date.
        """
        pattern = self.patterns.get("date")
        return parse_date(text) if pattern is None else pattern.read(text)[0].date()

    def parse_timestamp(self, text: str) -> datetime:
        """Parse a timestamp, as UTC.

        Raises:
            TypeMismatch: the text is not a timestamp.
        """
        pattern = self.patterns.get("timestamp")
        if pattern is None:
            return parse_timestamp(text, self.zone)
        local, named = pattern.read(text)
        try:
            return local.replace(tzinfo=named or self.zone).astimezone(UTC)
        except (OverflowError, ValueError) as error:
            raise TypeMismatch(text) from error

    def is_timestamp(self, text: str) -> bool:
        """Whether to infer a timestamp for a text; without a pattern, it must contain a full date.

        Other texts that ``CAST`` accepts, such as ``2024`` or ``00501-02``, are years, zip codes or part numbers.
        """
        if "timestamp" not in self.patterns and not _NAMES_A_DAY.match(text):
            return False
        try:
            self.parse_timestamp(text)
        except TypeMismatch:
            return False
        return True

    def parse_timestamp_ntz(self, text: str) -> datetime:
        """Parse a timestamp without a zone.

        Raises:
            TypeMismatch: the text is not a timestamp, or names a zone.
        """
        pattern = self.patterns.get("timestamp_ntz")
        if pattern is None:
            return parse_timestamp_ntz(text)
        local, named = pattern.read(text)
        if named is not None:
            raise TypeMismatch(text)
        return local


def text_converter(kind: JsonType, times: Times) -> Callable[[str], Any] | None:
    """The converter from text to a type; None for a nested type."""
    digits = decimal_of(kind)
    if digits:
        return lambda text: parse_decimal(text, *digits)
    if not isinstance(kind, str):
        return None
    if kind in RANGES:
        return lambda text: parse_integer(text, kind)
    return {
        "string": lambda text: text,
        "boolean": _boolean,
        "float": lambda text: parse_floating(text, CSV_NAMES),
        "double": lambda text: parse_floating(text, CSV_NAMES),
        "date": times.parse_date,
        "timestamp": times.parse_timestamp,
        "timestamp_ntz": times.parse_timestamp_ntz,
        "binary": lambda text: text.encode(),
    }.get(kind)


def _boolean(text: str) -> bool:
    folded = text.casefold()
    if folded not in ("true", "false"):
        raise TypeMismatch(text)
    return folded == "true"
