"""The schedule of one dataset, as SQL has it: ``SCHEDULE ...`` and ``TRIGGER ON UPDATE ...``.

Source: the vendor's reference of CREATE MATERIALIZED VIEW and CREATE STREAMING TABLE. Ours has no limits, and seconds.
"""

from __future__ import annotations

import re

from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.schedules.cron import CronTimes, InvalidSchedule
from headrace.schedules.definition import Cron, Every, Pace, Schedule, TableUpdate, Timing

USAGE = (
    "SCHEDULE EVERY 2 HOURS, SCHEDULE CRON '0 0 2 * * ?' AT TIME ZONE 'Europe/Berlin', "
    "or TRIGGER ON UPDATE AT MOST EVERY INTERVAL 5 MINUTES"
)
_TEXT = r"(?:'([^']*)'|\"([^\"]*)\")"
_EVERY = re.compile(r"SCHEDULE\s+(?:REFRESH\s+)?EVERY\s+(?:(\d+)\s+)?([A-Z]+)", re.IGNORECASE)
_CRON = re.compile(
    rf"SCHEDULE\s+(?:REFRESH\s+)?CRON\s+{_TEXT}(?:\s+AT\s+TIME\s+ZONE\s+(?:{_TEXT}|(LOCAL)))?", re.IGNORECASE
)
_ON_UPDATE = re.compile(
    r"TRIGGER\s+ON\s+UPDATE(?:\s+AT\s+MOST\s+EVERY\s+(?:INTERVAL\s+)?'?(\d+)'?\s+([A-Z]+))?", re.IGNORECASE
)


def parse_clause(text: str, zone: str = "UTC") -> Timing:
    """The timing of a clause.

    Args:
        text: the clause.
        zone: the time zone of a cron expression without one.

    Raises:
        InvalidSchedule: the text is no such clause, or a value in it is invalid.
    """
    text = text.strip()
    if found := _EVERY.fullmatch(text):
        return Every(_seconds(found[1] or "1", found[2]))
    if found := _CRON.fullmatch(text):
        if found[5]:
            raise InvalidSchedule("AT TIME ZONE LOCAL depends on the machine: name a time zone")
        return Cron(CronTimes.quartz(found[1] or found[2] or "", found[3] or found[4] or zone))
    if found := _ON_UPDATE.fullmatch(text):
        pace = Pace(at_most_every_s=_seconds(found[1], found[2])) if found[1] else Pace()
        return TableUpdate(pace=pace)
    raise InvalidSchedule("it has another form")


def clause_text(timing: Timing) -> str:
    """The clause of a timing; :func:`parse_clause` returns the same timing for it.

    Raises:
        InvalidSchedule: SQL has no clause for it.
    """
    match timing:
        case Every(period_s=period_s):
            return f"SCHEDULE EVERY {_number(period_s)} SECONDS"
        case Cron(times=times):
            return f"SCHEDULE CRON '{times.text}' AT TIME ZONE '{times.zone}'"
        case TableUpdate(pace=pace):
            return f"TRIGGER ON UPDATE AT MOST EVERY INTERVAL {_number(pace.at_most_every_s)} SECONDS"
        case _:
            raise InvalidSchedule("SQL has no clause for it")


def schedule_of(dataset: str, clause: str, retries: int | None) -> Schedule:
    """The schedule of a dataset's definition: it refreshes that dataset.

    Raises:
        InvalidSchedule: the clause is of another version.
    """
    return Schedule(f"dataset:{dataset}", parse_clause(clause), (dataset,), retries=retries, in_code=True)


def _number(seconds: float) -> str:
    return f"{seconds:.0f}"


def _seconds(number: str, unit: str) -> float:
    try:
        found = parse_interval_s(f"{number} {unit}")
    except InvalidInterval:
        raise InvalidSchedule(f'"{unit}" is no unit of time') from None
    if not found or found % 1:
        raise InvalidSchedule("its time must be at least a second")
    return found
