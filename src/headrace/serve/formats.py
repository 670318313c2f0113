"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
NO_DATA = "no data"


def duration(seconds: float | None) -> str:
    """A duration, such as ``14 min``; two units at most."""
    if seconds is None:
        return NO_DATA
    if seconds == 0:
        return "0 s"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{round(1000 * seconds)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    for below_s, unit_s, unit, part_s, part in (
        (_HOUR_S, _MINUTE_S, "min", 1, "s"),
        (_DAY_S, _HOUR_S, "h", _MINUTE_S, "min"),
    ):
        if whole < below_s:
            return _two_units(whole, unit_s, unit, part_s, part)
    return _two_units(whole, _DAY_S, "d", _HOUR_S, "h")


def _two_units(whole: int, unit_s: int, unit: str, part_s: int, part: str) -> str:
    rest = whole % unit_s // part_s
    return f"{whole // unit_s} {unit} {rest} {part}" if rest else f"{whole // unit_s} {unit}"


def count(number: float | None) -> str:
    """A number with separators of thousands."""
    if number is None:
        return NO_DATA
    return f"{number:,.0f}" if number == int(number) or abs(number) >= 100 else f"{number:,.3g}"


def rate(per_second: float | None) -> str:
    """Rows per second."""
    return NO_DATA if per_second is None else f"{count(round(per_second, 1))} rows/s"


def size(number: float | None) -> str:
    """A number of bytes, such as ``1.2 MB``."""
    if number is None:
        return NO_DATA
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 or number >= 100 else f"{number:.1f} {_UNITS[unit]}"


def share(part: float, whole: float) -> str:
    """A share in percent; one that is not all is never shown as 100 %."""
    if not whole:
        return NO_DATA
    percent = 100 * part / whole
    if 99.9 < percent < 100:
        return "> 99.9 %"
    if 0 < percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.1f} %".replace(".0 %", " %")


def plural(number: int, word: str) -> str:
    """A number with a noun."""
    if number == 1:
        return f"1 {word}"
    ending = "es" if word.endswith("ch") else "s"
    return f"{count(number)} {word.removesuffix('y')}ies" if word.endswith("ry") else f"{count(number)} {word}{ending}"


def iso(moment: datetime | float | None) -> str | None:
    """A time in ISO 8601 and UTC; of seconds since 1970, too."""
    if moment is None:
        return None
    found = datetime.fromtimestamp(moment, UTC) if isinstance(moment, int | float) else moment.astimezone(UTC)
    return found.isoformat(timespec="seconds").replace("+00:00", "Z")


def moment_text(text: str) -> str:
    """A time in ISO 8601 as people read it, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def ago(text: str, now: float) -> str:
    """How long ago a time in ISO 8601 was."""
    seconds = now - datetime.fromisoformat(text).timestamp()
    return f"{duration(seconds)} ago" if seconds >= 1 else "just now" if seconds > -60 else f"in {duration(-seconds)}"
