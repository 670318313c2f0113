"""Times of a cron expression in a time zone: those of Unix with five fields, and those of Quartz with six or seven.

Clocks that are set forward or back follow Debian's cron. A time that does not exist fires when the clock has been set
forward; a time that exists twice fires the first time. An expression whose minute or hour starts with ``*`` fires by
elapsed time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from headrace.model.time_zones import UnknownTimeZone, zone_of

_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_NAMES = ("seconds", "minutes", "hours", "day of month", "month", "day of week")
_LOWEST, _HIGHEST = (0, 0, 0, 1, 1, 1), (59, 59, 23, 31, 12, 7)
_WORDS: Mapping[int, tuple[str, ...]] = {4: _MONTHS, 5: _DAYS}
_DAY_OF_MONTH, _DAY_OF_WEEK = 3, 5
_NTH = re.compile(r"(\w+)#([1-5])")
_LAST = re.compile(r"(\w+)L")
# A time of each expression that can match is within so many years.
_SOME_TIME = datetime(2024, 1, 1, tzinfo=UTC)
_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0
# Where the newest time before a moment is looked for, in this order: few times are in a short window.
_WINDOWS_S = (_MINUTE_S, 10 * _MINUTE_S, _HOUR_S, 6 * _HOUR_S, _DAY_S, 32 * _DAY_S, 400 * _DAY_S, 30 * 366 * _DAY_S)


class InvalidSchedule(ValueError):
    """A text that is no schedule; its message says why."""


@dataclass(frozen=True)
class CronTimes:
    """The times of an expression.

    Attributes:
        text: as it was written.
        zone: the name of the time zone.
        expression: in cronsim's form, of five fields, or of six if it has several seconds.
        second: of each time, if the expression has five fields.
    """

    text: str
    zone: str
    expression: str
    second: int = 0

    @classmethod
    def unix(cls, text: str, zone: str) -> CronTimes:
        """The times of an expression with five fields.

        Raises:
            InvalidSchedule: the expression or the zone is invalid.
        """
        fields = len(text.split())
        if fields in (6, 7):
            raise InvalidSchedule(f"it has {fields} fields, as expressions of Quartz have")
        if fields != 5:
            raise InvalidSchedule(f"it has {fields} fields, not five")
        return _checked(cls(text, zone, " ".join(text.split())))

    @classmethod
    def quartz(cls, text: str, zone: str) -> CronTimes:
        """The times of an expression of Quartz: seconds first, days of the week from 1 for Sunday.

        Raises:
            InvalidSchedule: the expression or the zone is invalid, or a part of it is not supported.
        """
        parts = text.upper().split()
        if len(parts) not in (6, 7):
            raise InvalidSchedule(f"it has {len(parts)} fields; an expression of Quartz has six or seven")
        if len(parts) == 7 and parts[6] not in ("*", "?"):
            raise InvalidSchedule("years are not supported")
        day, weekday = parts[_DAY_OF_MONTH], parts[_DAY_OF_WEEK]
        if "?" in (day, weekday) and day == weekday:
            raise InvalidSchedule("only one of day of month and day of week can be ?")
        if day not in ("*", "?") and weekday not in ("*", "?"):
            raise InvalidSchedule("day of month and day of week exclude each other: write ? for one of them")
        fields = [_quartz_field(index, part) for index, part in enumerate(parts[:6])]
        if fields[0].isdigit():
            return _checked(cls(text, zone, " ".join(fields[1:]), int(fields[0])))
        return _checked(cls(text, zone, " ".join(fields)))

    def next_after(self, moment: float) -> float:
        """The first time after a moment; both in seconds since 1970."""
        return next(self._from(moment))

    def newest(self, after: float, until: float) -> float | None:
        """The newest time after one moment, up to another; None without one."""
        for window_s in _WINDOWS_S:
            start = max(after, until - window_s)
            found = None
            for moment in self._from(start):
                if moment > until:
                    break
                found = moment
            if found is not None or start == after:
                return found
        return None

    def _from(self, moment: float) -> Iterator[float]:
        """The times after a moment, in their order."""
        # The expression may have matched a moment ago, and the second may still come.
        since = datetime.fromtimestamp(moment - self.second, zone_of(self.zone))
        for found in CronSim(self.expression, since):
            time = found.timestamp() + self.second
            if time > moment:
                yield time


def _checked(times: CronTimes) -> CronTimes:
    """The times, if there are some."""
    try:
        zone_of(times.zone)
    except UnknownTimeZone:
        raise InvalidSchedule(f'the time zone "{times.zone}" is unknown') from None
    try:
        found = next(CronSim(times.expression, _SOME_TIME), None)
    except CronSimError as error:
        raise InvalidSchedule(str(error).replace("Bad ", "invalid ").replace("-", " ").lower()) from None
    if found is None:
        raise InvalidSchedule("no time matches it")
    return times


def _quartz_field(index: int, field: str) -> str:
    """A field of Quartz in cronsim's form."""
    if field in ("*", "?"):
        return "*"
    read = _day_of_week if index == _DAY_OF_WEEK else _day_of_month if index == _DAY_OF_MONTH else None
    terms = [_special(read, term) or _numbers(index, term) for term in field.split(",")]
    return ",".join(terms)


def _special(read: Callable[[str], str | None] | None, term: str) -> str | None:
    return None if read is None else read(term)


def _day_of_month(term: str) -> str | None:
    if term in ("L", "LW"):
        return term
    if "W" in term or "L" in term:
        raise InvalidSchedule(f'"{term}" is not supported in the day of month')
    return None


def _day_of_week(term: str) -> str | None:
    """A special day of the week; numbers start at 0 for Sunday in cronsim."""
    if term == "L":
        return "6"
    if found := _NTH.fullmatch(term):
        return f"{_number(_DAY_OF_WEEK, found[1]) - 1}#{found[2]}"
    if found := _LAST.fullmatch(term):
        return f"{_number(_DAY_OF_WEEK, found[1]) - 1}L"
    return None


def _numbers(index: int, term: str) -> str:
    """A term of numbers, such as ``FRI-MON`` or ``5/15``, as numbers with commas, or one number."""
    base, slash, step_text = term.partition("/")
    step = _step(index, step_text) if slash else 1
    lowest, highest = _LOWEST[index], _HIGHEST[index]
    first_text, dash, last_text = base.partition("-")
    if base == "*":
        # By elapsed time where clocks are changed, which a list of numbers would not be.
        return f"*/{step}"
    if dash:
        first, last = _number(index, first_text), _number(index, last_text)
        # Ranges of Quartz may pass the end.
        length = (last - first) % (highest - lowest + 1) + 1
        found = [lowest + (first - lowest + at) % (highest - lowest + 1) for at in range(length)]
    else:
        first = _number(index, base)
        found = list(range(first, highest + 1)) if slash else [first]
    shift = 1 if index == _DAY_OF_WEEK else 0
    return ",".join(str(number - shift) for number in found[::step])


def _step(index: int, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= _HIGHEST[index]:
        raise InvalidSchedule(f"invalid {_NAMES[index]}")
    return int(text)


def _number(index: int, text: str) -> int:
    names = _WORDS.get(index, ())
    if text in names:
        return names.index(text) + 1
    if not (text.isascii() and text.isdigit()) or not _LOWEST[index] <= int(text) <= _HIGHEST[index]:
        raise InvalidSchedule(f"invalid {_NAMES[index]}")
    return int(text)
