"""Convert columns of text to dates and timestamps, vectorised if all texts are in the common form."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.time_zones import zone_of

_MAX_DIGITS = 38
# The last year that time zone files list explicitly; later years follow a rule, which Arrow does not read.
_LAST_YEAR = 2037
DAY = r"^\d{4}-\d{2}-\d{2}$"
CLOCK_FACE = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
ZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:?\d{2})$"


class NotVectorised(ValueError):
    """A text is in another form, or invalid, so the values must be converted one by one."""


def parse_dates(texts: pa.Array) -> pa.Array:
    """Parse dates, ``yyyy-mm-dd``.

    Raises:
        NotVectorised: a text is in another form.
    """
    _check(texts, DAY)
    return _cast(texts, pa.date32())


def parse_timestamps(texts: pa.Array, zone: str | None) -> pa.Array:
    """Parse ISO 8601 timestamps. Texts without a zone are in *zone*; if *zone* is None, no text may have one.

    Raises:
        NotVectorised: a text is in another form, or in an hour that is ambiguous or skipped in the zone.
    """
    plain = pa.timestamp("us")
    if zone is None:
        _check(texts, CLOCK_FACE)
        return _cast(texts, plain)
    if _all(texts, ZONED):
        return _cast(texts, pa.timestamp("us", tz="UTC"))
    _check(texts, CLOCK_FACE)
    return assume_zone(_cast(texts, plain), zone)


def assume_zone(local: pa.Array, zone: str) -> pa.Array:
    """Convert local times of a zone to timestamps.

    Raises:
        NotVectorised: a time is in an hour that is ambiguous or skipped, or Arrow does not know the zone's offset then.
    """
    if not knows_zone(local, zone):
        raise NotVectorised
    try:
        known = pc.assume_timezone(local, zone, ambiguous="raise", nonexistent="raise")
    except pa.ArrowException as error:
        raise NotVectorised from error
    return known.cast(pa.timestamp("us", tz="UTC"))


def knows_zone(local: pa.Array, zone: str) -> bool:
    """Whether Arrow knows a zone's offsets at all of these times; otherwise its results would be wrong."""
    return zone == "UTC" or not pc.any(pc.greater(pc.year(local), _known_until(zone)), min_count=0).as_py()


@cache
def _known_until(zone: str) -> int:
    """The last year in which Arrow and Python agree on a zone's offsets: some machines' files end at 2007."""
    quarters = [datetime(year, month, 1, 12) for year in range(1970, _LAST_YEAR + 1) for month in (1, 4, 7, 10)]  # noqa: DTZ001 - clock faces
    arrow = pc.assume_timezone(pa.array(quarters), zone, ambiguous="earliest", nonexistent="latest")
    clocks = zone_of(zone)
    # Compare in UTC, because Python compares two times of one zone by their local times.
    pairs = zip(quarters, arrow.cast(pa.timestamp("us", "UTC")).to_pylist(), strict=True)
    return next((local.year - 1 for local, at in pairs if at != local.replace(tzinfo=clocks)), _LAST_YEAR)


def in_zone(local: pa.Array, zone: str) -> pa.Array:
    """Convert local times of a zone to timestamps; the earlier one if the hour is ambiguous."""
    if knows_zone(local, zone):
        return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
    clocks = zone_of(zone)
    times = local.cast(pa.timestamp("us"), safe=False).to_pylist()
    return pa.array([time and time.replace(tzinfo=clocks) for time in times], pa.timestamp("us", tz="UTC"))


def _all(texts: pa.Array, form: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, form), skip_nulls=True, min_count=0).as_py())


def _check(texts: pa.Array, form: str) -> None:
    if not _all(texts, form):
        raise NotVectorised


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:
        raise NotVectorised from error


def check_precision(values: pa.Array) -> pa.Array:
    """Check that decimals fit their precision, which Arrow does not, and return them.

    Raises:
        NotVectorised: a decimal has more digits than its type.
    """
    kind = values.type
    if pa.types.is_decimal(kind) and kind.precision < _MAX_DIGITS:
        wide = values.cast(pa.decimal256(_MAX_DIGITS + kind.scale, kind.scale))
        limit = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide.type)
        if pc.any(pc.greater_equal(pc.abs(wide), limit), skip_nulls=True, min_count=0).as_py():
            raise NotVectorised
    return values
