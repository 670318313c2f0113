"""Parse single values as Spark's JSON and CSV readers do.

Source: ``JacksonParser.makeConverter`` and ``UnivocityParser.makeConverter`` of Spark 4.2. Dates and times without a
pattern are parsed like ``CAST`` (``SparkDateTimeUtils.stringToDate`` and ``stringToTimestamp``).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

from headrace.model.time_zones import zone_of

RANGES = {"byte": 2**7, "short": 2**15, "integer": 2**31, "long": 2**63}
# Python refuses numbers of thousands of digits. Except for leading zeros, no number in range is as long as this.
_LONGEST_WHOLE = 100
_WHOLE = re.compile(r"[+-]?\d+")
_FLOATING = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_INFINITIES = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
# Names of NaN and the infinities in each format.
JSON_NAMES: Mapping[str, float] = {"NaN": math.nan, **_INFINITIES, "+INF": math.inf, "-INF": -math.inf}
CSV_NAMES: Mapping[str, float] = {"NaN": math.nan, **_INFINITIES, "Inf": math.inf, "-Inf": -math.inf}
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIME = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?\s*(\S.*)?)?)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TypeMismatch(ValueError):
    """A text is not a value of the type."""


def parse_integer(text: str, kind: str) -> int:
    """Parse an integer in the range of its type.

    Raises:
        TypeMismatch: the text is not such an integer.
    """
    if (
        len(text) > _LONGEST_WHOLE
        or not _WHOLE.fullmatch(text)
        or not -RANGES[kind] <= (value := int(text)) < RANGES[kind]
    ):
        raise TypeMismatch(text)
    return value


def parse_floating(text: str, names: Mapping[str, float]) -> float:
    """Parse a float like Java's ``Double.parseDouble``, or one of *names* (NaN, infinities).

    Raises:
        TypeMismatch: the text is neither.
    """
    if text in names:
        return names[text]
    text = text.strip()
    if not _FLOATING.fullmatch(text):
        raise TypeMismatch(text)
    return float(text.rstrip("dDfF"))


def parse_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Parse a decimal, rounded half up to its scale.

    Raises:
        TypeMismatch: the text is not a number, or has more digits than the type.
    """
    with localcontext() as context:
        context.prec = 100
        try:
            # Commas separate thousands, as in Spark's default locale. Spark also reads "1,5" as 15, although its author
            # meant one and a half; that is refused here.
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
    """Remove the commas between groups of three digits."""
    if "," in text and not _GROUPED.fullmatch(text):
        raise TypeMismatch(text)
    return text.replace(",", "")


def _unspaced(text: str) -> str:
    """Refuse surrounding spaces, which ``Decimal`` would ignore."""
    if text != text.strip():
        raise TypeMismatch(text)
    return text


def parse_date(text: str) -> date:
    """Parse a date: ``yyyy[-m[-d]]``; a time after it is ignored.

    Raises:
        TypeMismatch: the text is not a date, or outside the years 1 to 9999.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise TypeMismatch(text)
    try:
        return date(int(match.group(1)), int(match.group(2) or 1), int(match.group(3) or 1))
    except ValueError as error:
        raise TypeMismatch(text) from error


def parse_timestamp(text: str, zone: tzinfo) -> datetime:
    """Parse a timestamp: ``yyyy[-m[-d[ h:m:s[.f][zone]]]]``; in *zone* if the text names none. The result is in UTC.

    Raises:
        TypeMismatch: the text is not a timestamp, or outside the years 1 to 9999.
    """
    local, named = _local_time_and_zone(text)
    try:
        return local.replace(tzinfo=zone_of(named) if named else zone).astimezone(UTC)
    except (OverflowError, ValueError) as error:
        raise TypeMismatch(text) from error


def parse_timestamp_ntz(text: str) -> datetime:
    """Parse a timestamp without a zone.

    Raises:
        TypeMismatch: the text is not a timestamp, or names a zone.
    """
    local, named = _local_time_and_zone(text)
    if named:
        raise TypeMismatch(text)
    return local


def timestamp_from_seconds(count: int) -> datetime:
    """The timestamp *count* seconds after 1970.

    Raises:
        TypeMismatch: it is outside the years 1 to 9999.
    """
    try:
        return _EPOCH + timedelta(seconds=count)
    except OverflowError as error:
        raise TypeMismatch(str(count)) from error


def parse_base64(text: str) -> bytes:
    """Decode base 64.

    Raises:
        TypeMismatch: the text is not base 64.
    """
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise TypeMismatch(text) from error


def _local_time_and_zone(text: str) -> tuple[datetime, str | None]:
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
