"""A time of day in a time zone, such as a window for maintenance, or hours in which nobody is to be woken."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.model.time_zones import UnknownTimeZone, zone_of

_TEXT = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s+(\S+)")
_DAY_MINUTES = 24 * 60


class InvalidWindow(ValueError):
    """A text that is no window; its message says why."""


@dataclass(frozen=True)
class TimeWindow:
    """The minutes of each day from a start to an end; with an end before the start, until the next day.

    Attributes:
        start_minute: since midnight.
        end_minute: the first one after it.
        zone: the name of the time zone.
    """

    start_minute: int
    end_minute: int
    zone: str

    @classmethod
    def of(cls, text: str) -> TimeWindow:
        """The window for a text such as ``22:00-07:00 Europe/Berlin``.

        Raises:
            InvalidWindow: the text is no window.
        """
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise InvalidWindow("expected two times of day and a time zone")
        hours, minutes = (int(found[1]), int(found[3])), (int(found[2]), int(found[4]))
        start, end = (hour * 60 + minute for hour, minute in zip(hours, minutes, strict=True))
        if max(minutes) > 59 or max(start, end) > _DAY_MINUTES or start % _DAY_MINUTES == end % _DAY_MINUTES:
            raise InvalidWindow("the times of day must differ, and be 00:00 to 24:00")
        try:
            zone_of(found[5])
        except UnknownTimeZone:
            raise InvalidWindow(f'the time zone "{found[5]}" is unknown') from None
        return cls(start % _DAY_MINUTES, end % _DAY_MINUTES, found[5])

    def contains(self, at: float) -> bool:
        """Whether a time, in seconds since 1970, is in the window."""
        local = datetime.fromtimestamp(at, zone_of(self.zone))
        minute = local.hour * 60 + local.minute
        if self.start_minute < self.end_minute:
            return self.start_minute <= minute < self.end_minute
        return minute >= self.start_minute or minute < self.end_minute

    def ends_at(self, at: float) -> float:
        """When the window ends next after a time, in seconds since 1970."""
        return self._next(self.end_minute, at)

    def starts_at(self, at: float) -> float:
        """When the window starts next after a time, in seconds since 1970."""
        return self._next(self.start_minute, at)

    def _next(self, minute: int, at: float) -> float:
        local = datetime.fromtimestamp(at, zone_of(self.zone))
        today = local.replace(hour=minute // 60, minute=minute % 60, second=0, microsecond=0, fold=0)
        # Adding a day keeps the time of day, also if the clock is changed meanwhile.
        moments = ((today + timedelta(days=number)).timestamp() for number in range(3))
        return next(moment for moment in moments if moment > at)

    def __str__(self) -> str:
        start, end = (f"{minute // 60:02}:{minute % 60:02}" for minute in (self.start_minute, self.end_minute))
        return f"{start}-{end} {self.zone}"
