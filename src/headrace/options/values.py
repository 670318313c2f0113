"""Parses the values of options by their kinds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.model.time_zones import zone_of
from headrace.model.triggers import parse_interval_s
from headrace.options.option import Kind, Option

_BYTES = re.compile(r"(\d+)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_BYTES_PER_UNIT: dict[str, int] = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}


def text_of(value: Any) -> str:
    """An option's value as text, as Spark's readers convert it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_value(option: Option, text: str, time_zone: str) -> Any:
    """The value of an option; a time without a zone is in *time_zone*.

    Raises:
        ValueError: the text is not such a value; the message says what is.
    """
    if option.values:
        choice = {value.casefold(): value for value in option.values}.get(text.strip().casefold())
        if choice is None:
            raise ValueError(f"use one of {', '.join(option.values)}")
        return choice
    if option.parse is not None:
        try:
            return option.parse(text)
        except re.error as error:
            raise ValueError(str(error)) from error
    if option.kind is Kind.TIME:
        return time_us(text, time_zone)
    if option.kind is Kind.MILLISECONDS:
        return time_ms(text, time_zone)
    return _PARSERS[option.kind](text)


def time_us(text: str, time_zone: str = "UTC") -> int:
    """Microseconds since 1970 of an ISO 8601 text; a time without an offset is in *time_zone*.

    Raises:
        ValueError: it is not a time.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError('use a time, such as "2026-01-31T12:00:00Z"') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_of(time_zone))
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def time_ms(text: str, time_zone: str = "UTC") -> int:
    """Milliseconds since 1970 of an ISO 8601 text, rounded up, or of a number of milliseconds.

    Raises:
        ValueError: it is neither.
    """
    if re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text):
        return int(text)
    try:
        return -(-time_us(text, time_zone) // 1000)
    except ValueError:
        raise ValueError("use a time such as 2026-01-01T00:00:00Z, or milliseconds since 1970") from None


def _boolean(text: str) -> bool:
    if text.casefold() not in ("true", "false"):
        raise ValueError("use true or false")
    return text.casefold() == "true"


def _positive_integer(text: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9][0-9]{0,17}\s*", text):
        raise ValueError("use a whole number above 0")
    return int(text)


def _natural(text: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text):
        raise ValueError("use a whole number, 0 or more")
    return int(text)


def _bytes(text: str) -> int:
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise ValueError('use a number of bytes, such as "10g"')
    number, unit = match.groups()
    return int(number) * _BYTES_PER_UNIT[unit.casefold()]


def _integer(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text):
        raise ValueError("use a whole number")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"\s*[0-9]{1,15}(\.[0-9]*)?\s*", text):
        raise ValueError("use a number, 0 or more")
    return float(text)


def _fraction(text: str) -> float:
    if not re.fullmatch(r"\s*(0?\.[0-9]+|0|1|[01]\.0*|0\.[0-9]+)\s*", text):
        raise ValueError("use a number from 0 to 1")
    return float(text)


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError("use a duration in ISO 8601, such as PT1M30S")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError("use valid JSON") from None


def _offsets(text: str) -> Any:
    if text.strip().casefold() in ("earliest", "latest"):
        return text.strip().casefold()
    try:
        offsets = {
            topic: {int(number): offset for number, offset in by_partition.items()}
            for topic, by_partition in _json(text).items()
        }
    except (ValueError, AttributeError):
        offsets = {}
    if not offsets or not all(
        type(offset) is int and offset >= -2 for by_partition in offsets.values() for offset in by_partition.values()
    ):
        raise ValueError('use earliest, latest, or JSON such as {"orders": {"0": 23, "1": -2}}')
    return offsets


_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_PARSERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.TEXT: str,
    Kind.SECRET: str,
    Kind.BOOLEAN: _boolean,
    Kind.POSITIVE_INTEGER: _positive_integer,
    Kind.NATURAL: _natural,
    Kind.INTEGER: _integer,
    Kind.BYTES: _bytes,
    Kind.NUMBER: _number,
    Kind.FRACTION: _fraction,
    Kind.INTERVAL: parse_interval_s,
    Kind.DURATION: _duration,
    Kind.JSON: _json,
    Kind.OFFSETS: _offsets,
}
