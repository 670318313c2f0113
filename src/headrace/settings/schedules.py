"""Reads ``schedules``, and the vendor's ``trigger.cron``, of a settings file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from headrace.model.triggers import InvalidInterval, parse_duration_s
from headrace.schedules.cron import CronTimes, InvalidSchedule
from headrace.schedules.definition import (
    DEFAULT_AT_MOST_EVERY_S,
    CatchUp,
    Continuous,
    Cron,
    Every,
    FileArrival,
    Freshness,
    Pace,
    Schedule,
    TableUpdate,
    Timing,
    When,
)
from headrace.settings.check import Section

# The keys that say when; a schedule has one of them.
_TIMINGS = ("cron", "quartz_cron", "every", "files", "tables", "continuous", "freshness")
_BELONGS_TO: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "timezone": ("cron", "quartz_cron"),
        "when": ("tables",),
        "quiet": ("files", "tables"),
        "at_most_every": ("files", "tables"),
        "catch_up": ("cron", "quartz_cron", "every"),
    }
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_Word = TypeVar("_Word", bound=Enum)
VENDOR_NAME = "trigger"
Report = Callable[..., None]


def schedules_of(section: Section, folder: Path, retries: int, report: Report) -> tuple[Schedule, ...]:
    """The schedules of the settings; problems go to *report* (code, line, parameters).

    Args:
        section: the settings.
        folder: of the settings file; paths without a scheme are relative to it.
        retries: how often a failed update is started again unless a schedule says otherwise.
        report: takes problems.
    """
    reader = _Schedules(folder, retries, report)
    found = tuple(reader.schedules(section.named_sections("schedules")))
    vendor = reader.vendor_schedule(section.section("trigger").section("cron"))
    if vendor is not None and any(one.name == VENDOR_NAME for one in found):
        reader.wrong(
            section.line_of("trigger"), "trigger.cron", f'a schedule "{VENDOR_NAME}" is set too', "Remove one."
        )
    found += () if vendor is None else (vendor,)
    always = next((one for one in found if one.is_continuous), None)
    if section.flag("continuous") and found and always is None:
        line = section.line_of("trigger" if found[0] == vendor else "schedules")
        key = "trigger.cron" if found[0] == vendor else "schedules"
        reason = "the pipeline is continuous, so an update never ends"
        reader.wrong(line, key, reason, "Write a schedule with continuous: true, or remove continuous.")
    elif always is not None and len(found) > 1:
        line = section.named_sections("schedules")[always.name].line
        reason = "its update never ends, so no other schedule can start one"
        reader.wrong(line, f"schedules.{always.name}", reason, "Remove the other schedules, or this one.")
    return found


class _Schedules:
    """Reads schedules, and reports values that are invalid."""

    def __init__(self, folder: Path, retries: int, report: Report) -> None:
        self._folder = folder
        self._retries = retries
        self._report = report

    def wrong(self, line: int, key: str, reason: str, fix: str) -> None:
        self._report("SETTINGS.WRONG_VALUE", line, key=key, reason=reason, instead=fix)

    def schedules(self, given: Mapping[str, Section]) -> Iterator[Schedule]:
        """The valid schedules."""
        for name, section in given.items():
            key = f"schedules.{name}"
            if not _NAME.fullmatch(name):
                self.wrong(section.line, key, "its name is invalid", "Use letters, digits, underscores and hyphens.")
            kinds = [kind for kind in _TIMINGS if section.values.get(kind) not in (None, False)]
            if len(kinds) != 1:
                if not section.has_errors:
                    reason = f"it needs exactly one of {', '.join(_TIMINGS)}"
                    self.wrong(section.line, key, reason, "Write one schedule for each.")
                continue
            self._check_keys(section, key, kinds[0])
            timing = self._timing(kinds[0], section, key)
            if timing is not None:
                yield Schedule(
                    name,
                    timing,
                    section.texts("refresh"),
                    self._word(section, "catch_up", key, CatchUp, CatchUp.LATEST),
                    self._retries_of(section, key, timing),
                )

    def vendor_schedule(self, section: Section) -> Schedule | None:
        """The schedule of ``trigger.cron``; None without one."""
        written = section.text("quartz_cron_schedule")
        if written is None:
            if section.values and not section.has_errors:
                fix = 'Write quartz_cron_schedule: "0 0 2 * * ?".'
                self.wrong(section.line, "trigger.cron", "it has no quartz_cron_schedule", fix)
            return None
        times = self._times(
            section, "quartz_cron_schedule", "trigger.cron", "timezone_id", CronTimes.quartz, "0 0 2 * * ?"
        )
        return None if times is None else Schedule(VENDOR_NAME, Cron(times), retries=self._retries)

    def _check_keys(self, section: Section, key: str, kind: str) -> None:
        for name, kinds in _BELONGS_TO.items():
            if name in section.values and kind not in kinds:
                reason = f"it belongs to {' and '.join(kinds)}"
                self.wrong(section.line_of(name), f"{key}.{name}", reason, "Remove it.")

    def _timing(self, kind: str, section: Section, key: str) -> Timing | None:
        match kind:
            case "cron":
                times = self._times(section, "cron", key, "timezone", CronTimes.unix, "0 2 * * *")
                return None if times is None else Cron(times)
            case "quartz_cron":
                times = self._times(section, "quartz_cron", key, "timezone", CronTimes.quartz, "0 0 2 * * ?")
                return None if times is None else Cron(times)
            case "every":
                period_s = self._seconds(section, "every", key)
                return None if period_s is None else Every(period_s)
            case "files":
                return self._files(section, key)
            case "tables":
                return self._tables(section, key)
            case "continuous":
                return Continuous()
            case _:
                return self._freshness(section, key)

    def _times(
        self, section: Section, name: str, key: str, zone: str, read: Callable[[str, str], CronTimes], example: str
    ) -> CronTimes | None:
        try:
            return read(section.text(name) or "", section.text(zone) or "UTC")
        except InvalidSchedule as invalid:
            about_zone = "time zone" in str(invalid)
            fix = f'Write {name}: "{example}".'
            if name == "cron" and "Quartz" in str(invalid):
                fix = f'Write quartz_cron: "{section.text(name)}".'
            fix = f"Write {zone}: Europe/Berlin." if about_zone else fix
            wrong = zone if about_zone else name
            self.wrong(section.line_of(wrong), f"{key}.{wrong}", str(invalid), fix)
            return None

    def _files(self, section: Section, key: str) -> Timing | None:
        path, pace = (section.text("files") or "").strip(), self._pace(section, key)
        if not path:
            self.wrong(section.line_of("files"), f"{key}.files", "it is empty", "Write the path of a folder.")
            return None
        is_absolute = path.startswith("/") or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path) is not None
        return FileArrival(path if is_absolute else str(self._folder / path), pace)

    def _tables(self, section: Section, key: str) -> Timing | None:
        tables, pace = section.texts("tables"), self._pace(section, key)
        when = self._word(section, "when", key, When, When.ANY)
        if not tables or not all(table.strip() for table in tables):
            if not section.has_errors:
                self.wrong(section.line_of("tables"), f"{key}.tables", "it names no table", "Write [orders].")
            return None
        return TableUpdate(tables, when, pace)

    def _freshness(self, section: Section, key: str) -> Timing | None:
        targets: dict[str, float] = {}
        for name, written in section.mapping("freshness").items():
            target_s = _seconds_of(written)
            if target_s is None or target_s <= 0:
                line = section.line_of("freshness")
                self.wrong(line, f"{key}.freshness.{name}", "it is not a duration", "Write it as 30s, 5m or 4h.")
            else:
                targets[name] = target_s
        if not targets and not section.mapping("freshness") and not section.has_errors:
            self.wrong(section.line_of("freshness"), f"{key}.freshness", "it names no dataset", "Write {revenue: 10m}.")
        return Freshness(MappingProxyType(targets)) if targets else None

    def _pace(self, section: Section, key: str) -> Pace:
        quiet_s = self._seconds(section, "quiet", key, may_be_zero=True)
        least_s = self._seconds(section, "at_most_every", key, may_be_zero=True)
        return Pace(quiet_s or 0.0, DEFAULT_AT_MOST_EVERY_S if least_s is None else least_s)

    def _seconds(self, section: Section, name: str, key: str, *, may_be_zero: bool = False) -> float | None:
        written = section.text(name)
        found = None if written is None else _seconds_of(written)
        if written is not None and (found is None or (found < 1 and not (may_be_zero and found == 0))):
            self.wrong(section.line_of(name), f"{key}.{name}", "it is not a duration", "Write it as 30s, 5m or 4h.")
            return None
        return found

    def _retries_of(self, section: Section, key: str, timing: Timing) -> int | None:
        given = section.number("retries")
        if given is not None and given < 0:
            self.wrong(section.line_of("retries"), f"{key}.retries", "it is less than 0", "Write 0 or more.")
        if isinstance(timing, Continuous):
            if given is not None:
                reason = "a continuous update is always started again"
                self.wrong(section.line_of("retries"), f"{key}.retries", reason, "Remove it.")
            return None
        return self._retries if given is None else given

    def _word(self, section: Section, name: str, key: str, words: type[_Word], default: _Word) -> _Word:
        written = section.text(name)
        known = {word.value: word for word in words}
        if written is not None and written not in known:
            fix = f"Write {' or '.join(known)}."
            self.wrong(section.line_of(name), f"{key}.{name}", f'"{written}" is unknown', fix)
        return known.get(written or "", default)


def _seconds_of(written: str) -> float | None:
    try:
        return parse_duration_s(written)
    except InvalidInterval:
        return None
