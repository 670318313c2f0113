"""Options of a source as a table, and what a reader was given as values, with every problem at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from headrace.errors import PipelineError, Problems
from headrace.model.triggers import parse_interval_s
from headrace.settings.check import nearest
from headrace.settings.keys import Treatment


class Kind(Enum):
    """What the value of an option is."""

    TEXT = "text"
    SECRET = "text, secret"  # noqa: S105 - a description
    SWITCH = "true or false"
    COUNT = "whole number above 0"
    WHOLE = "whole number"
    NUMBER = "number, 0 or more"
    SHARE = "number from 0 to 1"
    INTERVAL = "interval"
    TIME = "time"


@dataclass(frozen=True)
class SourceOption:
    """One option of a source.

    Attributes:
        name: as documented; matched whatever its case.
        kind: what its value is.
        about: what it does; of an option without effect, or refused, why.
        default: as a person would write it, empty for none.
        treatment: whether it is used.
        instead: of a refused option, what to do.
        values: the words that it takes, if only some.
        required: whether there is nothing to read without it.
    """

    name: str
    kind: Kind
    about: str
    default: str = ""
    treatment: Treatment = Treatment.USED
    instead: str = ""
    values: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True)
class SourceFormat:
    """The name by which a reader asks for a source, with its options."""

    name: str
    options: Sequence[SourceOption]

    def option(self, name: str) -> SourceOption | None:
        """The option of a name, in whatever case."""
        return next((option for option in self.options if option.name.casefold() == name.casefold()), None)


def accepted(name: str, about: str) -> SourceOption:
    """An option that is accepted without effect."""
    return SourceOption(name, Kind.TEXT, about, treatment=Treatment.ACCEPTED)


def refused(name: str, about: str, instead: str) -> SourceOption:
    """An option that is refused by name."""
    return SourceOption(name, Kind.TEXT, about, treatment=Treatment.REFUSED, instead=instead)


@dataclass
class GivenOptions:
    """The options of one reader; ``values`` by the names of the table, those that were not given left out.

    Problems are collected; :meth:`check` raises them.
    """

    format: SourceFormat
    values: dict[str, Any] = field(default_factory=dict)
    inert: list[str] = field(default_factory=list)
    problems: list[PipelineError] = field(default_factory=list)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option."""
        return self.values.get(name, default)

    def wrong(self, name: str, reason: str) -> None:
        """Note that a value does not do; that of a secret is not shown."""
        option = self.format.option(name)
        secret = option is not None and option.kind is Kind.SECRET
        value = "..." if secret else _text(self.values.get(name, ""))
        self.problem("SOURCE.OPTION_VALUE", option=name, value=value, reason=reason)

    def problem(self, code: str, **params: Any) -> None:
        """Note a problem of this format."""
        self.problems.append(PipelineError(code, format=self.format.name, **params))

    def without_effect(self) -> tuple[tuple[str, str], ...]:
        """Options that were given and change nothing, each with the reason."""
        found = [option for option in self.format.options if option.name in self.inert]
        return tuple((option.name, option.about) for option in found)

    def check(self) -> None:
        """Raise what is wrong.

        Raises:
            Problems: all of it.
        """
        if self.problems:
            raise Problems(self.problems)


def read_options(source: SourceFormat, given: Mapping[str, Any], *, time_zone: str = "UTC") -> GivenOptions:
    """The options that a reader was given: names in any case, values as Spark takes them; None counts as not given."""
    found = GivenOptions(source)
    for name, value in given.items():
        if value is not None:
            _take(found, name, _text(value), time_zone)
    for option in source.options:
        if option.required and option.name not in found.values and not _is_wrong(found, option):
            found.problem("SOURCE.OPTION_MISSING", option=option.name, about=option.about)
    return found


def _is_wrong(found: GivenOptions, option: SourceOption) -> bool:
    return any(problem.params.get("option") == option.name for problem in found.problems)


def _take(found: GivenOptions, name: str, text: str, time_zone: str) -> None:
    option = found.format.option(name)
    if option is None:
        close = nearest(name, [known.name for known in found.format.options])
        found.problem("SOURCE.OPTION_UNKNOWN", option=name, near=close or "none of a similar name")
    elif option.treatment is Treatment.REFUSED:
        found.problem("SOURCE.OPTION_REFUSED", option=option.name, reason=option.about, instead=option.instead)
    elif option.treatment is Treatment.ACCEPTED:
        found.inert.append(option.name)
    else:
        try:
            found.values[option.name] = _value(option, text, time_zone)
        except ValueError as error:
            shown = "..." if option.kind is Kind.SECRET else text
            found.problem("SOURCE.OPTION_VALUE", option=option.name, value=shown, reason=str(error))


def _value(option: SourceOption, text: str, time_zone: str) -> Any:
    if option.values:
        chosen = {value.casefold(): value for value in option.values}.get(text.strip().casefold())
        if chosen is None:
            raise ValueError(f"it is one of {', '.join(option.values)}")
        return chosen
    if option.kind is Kind.TIME:
        return time_us(text, time_zone)
    return _PARSERS[option.kind](text)


def time_us(text: str, time_zone: str = "UTC") -> int:
    """Microseconds since 1970 behind an ISO 8601 text; without an offset it is a time of *time_zone*.

    Raises:
        ValueError: it is something else.
    """
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - most readers give no time

    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError('it is no time, such as "2026-01-31T12:00:00Z"') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(time_zone))
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _switch(text: str) -> bool:
    if text.casefold() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.casefold() == "true"


def _count(text: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9][0-9]{0,17}\s*", text):
        raise ValueError("it is a whole number above 0")
    return int(text)


def _whole(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text):
        raise ValueError("it is a whole number")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"\s*[0-9]{1,15}(\.[0-9]*)?\s*", text):
        raise ValueError("it is a number, 0 or more")
    return float(text)


def _share(text: str) -> float:
    if not re.fullmatch(r"\s*(0?\.[0-9]+|0|1|[01]\.0*|0\.[0-9]+)\s*", text):
        raise ValueError("it is a number from 0 to 1")
    return float(text)


_PARSERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.TEXT: str,
    Kind.SECRET: str,
    Kind.SWITCH: _switch,
    Kind.COUNT: _count,
    Kind.WHOLE: _whole,
    Kind.NUMBER: _number,
    Kind.SHARE: _share,
    Kind.INTERVAL: parse_interval_s,
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
