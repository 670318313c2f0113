"""Options of a source as a table, and what a reader was given as values, with every problem at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from headrace.autoloader.reading.values import zone_of
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
    DURATION = "duration in ISO 8601"
    TIME = "time"
    MILLISECONDS = "time, or milliseconds since 1970"
    JSON = "JSON"
    OFFSETS = "`earliest`, `latest` or JSON"


class Reads(Enum):
    """Which readers take an option. A batch passes over those of streams, and says so."""

    BOTH = "both"
    STREAMS = "streams"
    BATCHES = "batches"


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
        reads: which readers take it.
    """

    name: str
    kind: Kind
    about: str
    default: str = ""
    treatment: Treatment = Treatment.USED
    instead: str = ""
    values: tuple[str, ...] = ()
    required: bool = False
    reads: Reads = Reads.BOTH


@dataclass(frozen=True)
class SourceFormat:
    """The name by which a reader asks for a source, with its options.

    Attributes:
        name: of the format.
        options: those that are known by name.
        page: the page of the reference that lists them.
        passed_on: what the names of options begin with that go to the source's client as they are; empty for none.
    """

    name: str
    options: Sequence[SourceOption]
    page: str = "docs/reference/sources.md"
    passed_on: str = ""

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

    ``texts`` are the same as they were given, and ``passed_on`` those for the source's client, by names in lower case.
    Problems are collected; :meth:`check` raises them.
    """

    format: SourceFormat
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    texts: dict[str, str] = field(default_factory=dict, repr=False)
    passed_on: dict[str, str] = field(default_factory=dict, repr=False)
    inert: dict[str, str] = field(default_factory=dict)
    problems: list[PipelineError] = field(default_factory=list)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option."""
        return self.values.get(name, default)

    def wrong(self, name: str, reason: str) -> None:
        """Note that a value does not do; that of a secret is not shown."""
        option = self.format.option(name)
        secret = option is not None and option.kind is Kind.SECRET
        value = "..." if secret else self.texts.get(name, "")
        self.problem("SOURCE.OPTION_VALUE", option=name, value=value, reason=reason)

    def problem(self, code: str, **params: Any) -> None:
        """Note a problem of this format."""
        self.problems.append(PipelineError(code, format=self.format.name, page=self.format.page, **params))

    def without_effect(self) -> tuple[tuple[str, str], ...]:
        """Options that were given and change nothing, each with the reason."""
        return tuple(self.inert.items())

    def check(self) -> None:
        """Raise what is wrong.

        Raises:
            Problems: all of it.
        """
        if self.problems:
            raise Problems(self.problems)


def read_options(
    source: SourceFormat, given: Mapping[str, Any], *, time_zone: str = "UTC", streams: bool = True
) -> GivenOptions:
    """The options that a reader was given: names in any case, values as Spark takes them; None counts as not given.

    Of an option that was given in several spellings the last one counts, as in Spark's own map.

    Args:
        source: whose options they are.
        given: names and values.
        time_zone: of times that say none.
        streams: whether a stream is read; one that is for batches alone is refused then, and the other way round it has
            no effect.
    """
    found = GivenOptions(source)
    for name, value in given.items():
        if value is not None:
            _take(found, name, text_of(value), time_zone, streams=streams)
    for option in source.options:
        if option.required and option.name not in found.texts:
            found.problem("SOURCE.OPTION_MISSING", option=option.name, about=option.about)
    return found


def text_of(value: Any) -> str:
    """An option's value as Spark's readers make a text of it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _take(found: GivenOptions, name: str, text: str, time_zone: str, *, streams: bool) -> None:
    source = found.format
    option = source.option(name)
    if option is None and source.passed_on and name.casefold().startswith(source.passed_on):
        found.passed_on[name.casefold()] = text
    elif option is None:
        close = nearest(name, [known.name for known in source.options])
        found.problem("SOURCE.OPTION_UNKNOWN", option=name, near=close or "none")
    elif option.treatment is Treatment.REFUSED:
        found.problem("SOURCE.OPTION_REFUSED", option=option.name, reason=option.about, instead=option.instead)
    elif option.reads is Reads.BATCHES and streams:
        reason, instead = "it says where a batch ends, and a stream has no end", "Remove it, or read with spark.read"
        found.problem("SOURCE.OPTION_REFUSED", option=option.name, reason=reason, instead=instead)
    elif option.treatment is Treatment.ACCEPTED:
        found.inert[option.name] = option.about
    elif option.reads is Reads.STREAMS and not streams:
        found.inert[option.name] = "a batch reads everything at once"
    else:
        found.texts[option.name] = text
        try:
            found.values[option.name] = _value(option, text, time_zone)
        except ValueError as error:
            found.wrong(option.name, str(error))


def _value(option: SourceOption, text: str, time_zone: str) -> Any:
    if option.values:
        chosen = {value.casefold(): value for value in option.values}.get(text.strip().casefold())
        if chosen is None:
            raise ValueError(f"it is one of {', '.join(option.values)}")
        return chosen
    if option.kind is Kind.TIME:
        return time_us(text, time_zone)
    if option.kind is Kind.MILLISECONDS:
        return time_ms(text, time_zone)
    return _PARSERS[option.kind](text)


def time_us(text: str, time_zone: str = "UTC") -> int:
    """Microseconds since 1970 behind an ISO 8601 text; without an offset it is a time of *time_zone*.

    Raises:
        ValueError: it is something else.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError('it is no time, such as "2026-01-31T12:00:00Z"') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_of(time_zone))
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def time_ms(text: str, time_zone: str = "UTC") -> int:
    """Milliseconds since 1970 behind an ISO 8601 text, rounded up, or behind milliseconds.

    Raises:
        ValueError: it is neither.
    """
    if re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text):
        return int(text)
    try:
        return -(-time_us(text, time_zone) // 1000)
    except ValueError:
        raise ValueError("it is no time like 2026-01-01T00:00:00Z, and no milliseconds since 1970") from None


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


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError("it is a duration in ISO 8601, such as PT1M30S")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError("it is no JSON") from None


def _offsets(text: str) -> Any:
    if text.strip().casefold() in ("earliest", "latest"):
        return text.strip().casefold()
    try:
        offsets = {topic: {int(number): at for number, at in places.items()} for topic, places in _json(text).items()}
    except (ValueError, AttributeError):
        offsets = {}
    if not offsets or not all(type(at) is int and at >= -2 for places in offsets.values() for at in places.values()):
        raise ValueError('it is earliest, latest, or JSON like {"orders": {"0": 23, "1": -2}}')
    return offsets


_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_PARSERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.TEXT: str,
    Kind.SECRET: str,
    Kind.SWITCH: _switch,
    Kind.COUNT: _count,
    Kind.WHOLE: _whole,
    Kind.NUMBER: _number,
    Kind.SHARE: _share,
    Kind.INTERVAL: parse_interval_s,
    Kind.DURATION: _duration,
    Kind.JSON: _json,
    Kind.OFFSETS: _offsets,
}
