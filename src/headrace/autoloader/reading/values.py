"""Single values as Spark's JSON and CSV readers make them of what a file says.

After ``JacksonParser.makeConverter`` and ``UnivocityParser.makeConverter`` of Spark 4.2; dates and times without a
pattern are read as ``CAST`` does it (``SparkDateTimeUtils.stringToDate`` and ``stringToTimestamp``).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

RANGES = {"byte": 2**7, "short": 2**15, "integer": 2**31, "long": 2**63}
# Python reads no number of thousands of digits; leading zeros aside, none in range has as many as this.
_LONGEST_WHOLE = 100
_WHOLE = re.compile(r"[+-]?\d+")
_FLOATING = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_INFINITIES = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
# What stands for what is no number in each of the formats.
JSON_NAMES: Mapping[str, float] = {"NaN": math.nan, **_INFINITIES, "+INF": math.inf, "-INF": -math.inf}
CSV_NAMES: Mapping[str, float] = {"NaN": math.nan, **_INFINITIES, "Inf": math.inf, "-Inf": -math.inf}
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIME = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?\s*(\S.*)?)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# The old names that Spark's zones have too (java.time.ZoneId.SHORT_IDS).
_SHORT_IDS: Mapping[str, str] = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}


class TypeMismatch(ValueError):
    """What a file says is no value of the type."""


def whole(text: str, kind: str) -> int:
    """An integer in the range of its type.

    Raises:
        TypeMismatch: it is none.
    """
    if (
        len(text) > _LONGEST_WHOLE
        or not _WHOLE.fullmatch(text)
        or not -RANGES[kind] <= (value := int(text)) < RANGES[kind]
    ):
        raise TypeMismatch(text)
    return value


def floating(text: str, names: Mapping[str, float]) -> float:
    """A float, as Java's ``Double.parseDouble`` reads it, or one of the names for what is no number.

    Raises:
        TypeMismatch: it is none.
    """
    if text in names:
        return names[text]
    text = text.strip()
    if not _FLOATING.fullmatch(text):
        raise TypeMismatch(text)
    return float(text.rstrip("dDfF"))


def decimal(text: str, precision: int, scale: int) -> Decimal:
    """A decimal, rounded half up to its scale.

    Raises:
        TypeMismatch: it is no number, or has more digits than the type.
    """
    with localcontext() as context:
        context.prec = 100
        try:
            # Commas are those of thousands, as in the locale that Spark reads in unless it is told another. Spark reads
            # "1,5" as 15, too, which where it was written is one and a half.
            value = Decimal(_ungrouped(_unspaced(text)))
            if not value.is_finite():
                raise TypeMismatch(text)
            rounded = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
        except InvalidOperation as error:
            raise TypeMismatch(text) from error
    if len(rounded.as_tuple().digits) > precision:
        raise TypeMismatch(text)
    return rounded


def _ungrouped(text: str) -> str:
    """The text without commas between groups of three digits."""
    if "," in text and not _GROUPED.fullmatch(text):
        raise TypeMismatch(text)
    return text.replace(",", "")


def _unspaced(text: str) -> str:
    """The text, for a reader that would pass over spaces around it."""
    if text != text.strip():
        raise TypeMismatch(text)
    return text


def day(text: str) -> date:
    """A date: ``yyyy[-m[-d]]``, with a time behind it that does not count.

    Raises:
        TypeMismatch: it is none, or beyond the years 1 to 9999.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise TypeMismatch(text)
    try:
        return date(int(match.group(1)), int(match.group(2) or 1), int(match.group(3) or 1))
    except ValueError as error:
        raise TypeMismatch(text) from error


def moment(text: str, zone: tzinfo) -> datetime:
    """A point in time: ``yyyy[-m[-d[ h:m:s[.f][zone]]]]``; in *zone* where the text names none.

    Raises:
        TypeMismatch: it is none, or beyond the years 1 to 9999.
    """
    local, named = _clock_face(text)
    try:
        return local.replace(tzinfo=zone_of(named) if named else zone).astimezone(UTC)
    except (OverflowError, ValueError) as error:
        raise TypeMismatch(text) from error


def clock_face(text: str) -> datetime:
    """A time of no zone; a text that names one is none.

    Raises:
        TypeMismatch: it is none.
    """
    local, named = _clock_face(text)
    if named:
        raise TypeMismatch(text)
    return local


def seconds(count: int) -> datetime:
    """The point in time that many seconds after 1970.

    Raises:
        TypeMismatch: it is beyond the years 1 to 9999.
    """
    try:
        return _EPOCH + timedelta(seconds=count)
    except OverflowError as error:
        raise TypeMismatch(str(count)) from error


def bytes_of(text: str) -> bytes:
    """What base 64 spells.

    Raises:
        TypeMismatch: it is none.
    """
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise TypeMismatch(text) from error


def zone_name(name: str) -> str:
    """The name of a zone that Arrow knows it by, too."""
    return _SHORT_IDS.get(name.strip(), name.strip())


@cache
def zone_of(name: str) -> tzinfo:
    """The zone of a name, or of an offset such as ``+02:00``.

    Raises:
        TypeMismatch: no zone has this name.
    """
    text = zone_name(name)
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    match = _OFFSET.fullmatch(text)
    if match:
        hours, minutes, rest = (int(part or 0) for part in match.group(2, 3, 4))
        sign = -1 if match.group(1) == "-" else 1
        if hours <= 18 and minutes < 60 and rest < 60:
            return timezone(sign * timedelta(hours=hours, minutes=minutes, seconds=rest))
        raise TypeMismatch(name)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise TypeMismatch(name) from error


def _clock_face(text: str) -> tuple[datetime, str | None]:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise TypeMismatch(text)
    year, month, day_, hour, minute, second, fraction, named = match.groups()
    if hour is not None and minute is None and named is not None:
        raise TypeMismatch(text)
    try:
        micros = int((fraction or "")[:6].ljust(6, "0"))
        numbers = (int(month or 1), int(day_ or 1), int(hour or 0), int(minute or 0), int(second or 0))
        return datetime(int(year), *numbers, micros), named  # noqa: DTZ001 - the zone comes with the text, or not
    except ValueError as error:
        raise TypeMismatch(text) from error
