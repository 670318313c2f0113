"""Reads values of a requirements file, and reports those that are invalid."""

from __future__ import annotations

import re
from typing import TypeVar

from headrace.assistant.design.requirement_keys import REQUIREMENTS
from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.settings.check import Section

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b(?:ytes)?)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SHARES = {"yes": 0.01, "true": 0.01, "no": 0.0, "false": 0.0}
_Number = TypeVar("_Number", int, float)


class ValueReader:
    """Reads single values; collects problems, and replaces invalid values by None."""

    def __init__(self, file: str, problems: list[PipelineError]) -> None:
        self.file = file
        self.problems = problems

    def share(self, section: Section, label: str) -> float:
        """The share at ``duplicates``: ``yes`` counts as one in a hundred."""
        text = section.text("duplicates")
        if text is None:
            return 0.0
        if text.casefold() in _SHARES:
            return _SHARES[text.casefold()]
        try:
            share = float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share < 1:
            fix = "Write yes, no, or a share from 0 to 1, such as 0.02."
            self.invalid(section, "duplicates", f"{label}.duplicates", f'"{text}" is no share', fix)
        return max(share, 0.0)

    def seconds(self, section: Section, key: str, label: str = "") -> float | None:
        """The seconds of a duration above zero; None if it is missing or invalid."""
        text = section.text(key)
        if text is None:
            return None
        name = f"{label}.{key}" if label else key
        try:
            seconds = parse_interval_s(text)
        except InvalidInterval as error:
            self.invalid(section, key, name, str(error), 'Write a number and a unit, such as "10 minutes".')
            return None
        if seconds <= 0:
            self.invalid(section, key, name, "it is not above 0", 'Write a duration, such as "10 minutes".')
            return None
        return seconds

    def memory_bytes(self, state: Section) -> int | None:
        """The bytes at ``memory``, such as ``2 GiB``; None if it is missing or invalid."""
        text = state.text("memory")
        if text is None:
            return None
        found = _SIZE.fullmatch(text.strip())
        if found is None or not float(found[1]):
            self.invalid(state, "memory", "state.memory", f'"{text}" is no size', "Write a size, such as 2 GiB.")
            return None
        return int(float(found[1]) * 1024 ** _POWERS[found[2].casefold()])

    def positive(self, section: Section, key: str, value: _Number | None, label: str) -> _Number | None:
        """The value if it is above zero, otherwise None."""
        if value is not None and value <= 0:
            self.invalid(section, key, f"{label}.{key}", "it is not above 0", "Write a number above 0.")
            return None
        return value

    def check_values(self, section: Section, path: str, label: str) -> None:
        """Check what the table of keys says of the values of a mapping: required keys, choices and patterns."""
        for name, key in REQUIREMENTS.below(path).items():
            text, full = section.text(name), f"{label}.{name}" if label else name
            if key.required and name not in section.values and not section.has_errors:
                location = Location(self.file, section.line)
                self.problems.append(PipelineError("REQUIREMENTS.MISSING_KEY", location=location, key=full))
            elif text is not None and key.choices and text not in key.choices:
                fix = f"Write one of: {', '.join(key.choices)}."
                self.invalid(section, name, full, f'"{text}" is unknown', fix)
            elif text is not None and key.pattern and not re.search(key.pattern, text):
                fix = "Use letters, digits and underscores, and begin with a letter."
                self.invalid(section, name, full, f'"{text}" is no name', fix)

    def invalid(self, section: Section, key: str, label: str, reason: str, fix: str) -> None:
        """Report an invalid value."""
        self.report("REQUIREMENTS.WRONG_VALUE", section.line_of(key), label, reason, fix)

    def report(self, code: str, line: int, key: str, reason: str, fix: str) -> None:
        """Report a problem on a line."""
        location = Location(self.file, line)
        self.problems.append(PipelineError(code, location=location, key=key, reason=reason, instead=fix))
