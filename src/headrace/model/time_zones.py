"""Time zones by name or offset, as Spark accepts them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
# Old zone names that Spark accepts too (java.time.ZoneId.SHORT_IDS).
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


class UnknownTimeZone(ValueError):
    """A text that names no time zone."""


def zone_name(name: str) -> str:
    """The name of a zone in the form that Arrow knows too."""
    return _SHORT_IDS.get(name.strip(), name.strip())


@cache
def zone_of(name: str) -> tzinfo:
    """The zone for a name, or for an offset such as ``+02:00``.

    Raises:
        UnknownTimeZone: there is no such zone.
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
        raise UnknownTimeZone(name)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownTimeZone(name) from error
