"""Tables of source options, and a reader's options parsed by them. All problems are reported at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from headrace.autoloader.reading.conversion.values import zone_of
from headrace.errors import PipelineError, Problems
from headrace.model.triggers import parse_interval_s
from headrace.settings.check import nearest
from headrace.settings.keys import Treatment


class Kind(Enum):
    """The type of an option's value."""

    TEXT = "text"
    SECRET = "text, secret"  # noqa: S105 - a description
    BOOLEAN = "true or false"
    POSITIVE_INTEGER = "whole number above 0"
    INTEGER = "whole number"
    NUMBER = "number, 0 or more"
    FRACTION = "number from 0 to 1"
    INTERVAL = "interval"
    DURATION = "duration in ISO 8601"
    TIME = "time"
    MILLISECONDS = "time, or milliseconds since 1970"
    JSON = "JSON"
    OFFSETS = "`earliest`, `latest` or JSON"


class ReadMode(Enum):
    """Which readers accept an option. A batch ignores options for streams, with a warning."""

    BOTH = "both"
    STREAMS = "streams"
    BATCHES = "batches"


@dataclass(frozen=True)
class SourceOption:
    """One option of a source.

    Attributes:
        name: as documented; case-insensitive.
        kind: the type of its value.
        about: what it does; for an option that is ignored or refused, why.
        default: for people; empty for none.
        treatment: used, accepted without effect, or refused.
        fix: what to do instead of a refused option.
        values: the allowed values, if limited.
        required: nothing can be read without it.
        read_mode: which readers accept it.
    """

    name: str
    kind: Kind
    about: str
    default: str = ""
    treatment: Treatment = Treatment.USED
    fix: str = ""
    values: tuple[str, ...] = ()
    required: bool = False
    read_mode: ReadMode = ReadMode.BOTH


@dataclass(frozen=True)
class SourceFormat:
    """A source format and its options.

    Attributes:
        name: of the format.
        options: the options known by name.
        page: the reference page that lists them.
        passed_on: the prefix of options that go unchanged to the source's client; empty for none.
    """

    name: str
    options: Sequence[SourceOption]
    page: str = "docs/reference/sources.md"
    passed_on: str = ""

    def option(self, name: str) -> SourceOption | None:
        """The option with a name, case-insensitive."""
        return next((option for option in self.options if option.name.casefold() == name.casefold()), None)


def accepted(name: str, about: str) -> SourceOption:
    """An option that is accepted but ignored."""
    return SourceOption(name, Kind.TEXT, about, treatment=Treatment.ACCEPTED)


def refused(name: str, about: str, fix: str) -> SourceOption:
    """An option that is refused by name."""
    return SourceOption(name, Kind.TEXT, about, treatment=Treatment.REFUSED, fix=fix)


@dataclass
class ParsedOptions:
    """The parsed options of one reader. ``values`` holds the options that were set, under their documented names.

    ``texts`` holds the same options as the user has written them, ``passed_on`` those for the source's client, by name
    in lower case, and ``ignored`` those without effect, with the reason. :meth:`check` raises the collected problems.
    """

    format: SourceFormat
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    texts: dict[str, str] = field(default_factory=dict, repr=False)
    passed_on: dict[str, str] = field(default_factory=dict, repr=False)
    ignored: dict[str, str] = field(default_factory=dict)
    problems: list[PipelineError] = field(default_factory=list)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option, or the default."""
        return self.values.get(name, default)

    def reject(self, name: str, reason: str) -> None:
        """Add a problem about an option's value; the value of a secret is not shown."""
        option = self.format.option(name)
        secret = option is not None and option.kind is Kind.SECRET
        value = "..." if secret else self.texts.get(name, "")
        self.add_problem("SOURCE.OPTION_VALUE", option=name, value=value, reason=reason)

    def add_problem(self, code: str, **params: Any) -> None:
        """Add a problem of this format."""
        self.problems.append(PipelineError(code, format=self.format.name, page=self.format.page, **params))

    def without_effect(self) -> tuple[tuple[str, str], ...]:
        """The options that were set but are ignored, each with the reason."""
        return tuple(self.ignored.items())

    def check(self) -> None:
        """Raise the collected problems.

        Raises:
            Problems: all of them.
        """
        if self.problems:
            raise Problems(self.problems)


def read_options(
    source: SourceFormat, given: Mapping[str, Any], *, time_zone: str = "UTC", streaming: bool = True
) -> ParsedOptions:
    """Parse a reader's options: names are case-insensitive, values are as Spark accepts them, None means not set.

    If an option is set in several spellings, the last one counts, as in Spark's own map.

    Args:
        source: the format that defines the options.
        given: names and values.
        time_zone: of times without a zone.
        streaming: whether a stream is read. A stream refuses options for batches; a batch ignores options for streams.
    """
    parsed = ParsedOptions(source)
    for name, value in given.items():
        if value is not None:
            _add_option(parsed, name, text_of(value), time_zone, streaming=streaming)
    for option in source.options:
        if option.required and option.name not in parsed.texts:
            parsed.add_problem("SOURCE.OPTION_MISSING", option=option.name, about=option.about)
    return parsed


def text_of(value: Any) -> str:
    """An option's value as text, as Spark's readers convert it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _add_option(parsed: ParsedOptions, name: str, text: str, time_zone: str, *, streaming: bool) -> None:
    source = parsed.format
    option = source.option(name)
    if option is None and source.passed_on and name.casefold().startswith(source.passed_on):
        parsed.passed_on[name.casefold()] = text
    elif option is None:
        close = nearest(name, [known.name for known in source.options])
        parsed.add_problem("SOURCE.OPTION_UNKNOWN", option=name, near=close or "none")
    elif option.treatment is Treatment.REFUSED:
        parsed.add_problem("SOURCE.OPTION_REFUSED", option=option.name, reason=option.about, instead=option.fix)
    elif option.read_mode is ReadMode.BATCHES and streaming:
        reason, instead = "it says where a batch ends, and a stream has no end", "Remove it, or read with spark.read"
        parsed.add_problem("SOURCE.OPTION_REFUSED", option=option.name, reason=reason, instead=instead)
    elif option.treatment is Treatment.ACCEPTED:
        parsed.ignored[option.name] = option.about
    elif option.read_mode is ReadMode.STREAMS and not streaming:
        parsed.ignored[option.name] = "a batch reads everything at once"
    else:
        parsed.texts[option.name] = text
        try:
            parsed.values[option.name] = _value(option, text, time_zone)
        except ValueError as error:
            parsed.reject(option.name, str(error))


def _value(option: SourceOption, text: str, time_zone: str) -> Any:
    if option.values:
        choice = {value.casefold(): value for value in option.values}.get(text.strip().casefold())
        if choice is None:
            raise ValueError(f"it is one of {', '.join(option.values)}")
        return choice
    if option.kind is Kind.TIME:
        return time_us(text, time_zone)
    if option.kind is Kind.MILLISECONDS:
        return time_ms(text, time_zone)
    return _PARSERS[option.kind](text)


def time_us(text: str, time_zone: str = "UTC") -> int:
    """Microseconds since 1970 of an ISO 8601 text; a time without an offset is in *time_zone*.

    Raises:
        ValueError: it is not a time.
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
    """Milliseconds since 1970 of an ISO 8601 text, rounded up, or of a number of milliseconds.

    Raises:
        ValueError: it is neither.
    """
    if re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text):
        return int(text)
    try:
        return -(-time_us(text, time_zone) // 1000)
    except ValueError:
        raise ValueError("it is no time like 2026-01-01T00:00:00Z, and no milliseconds since 1970") from None


def _boolean(text: str) -> bool:
    if text.casefold() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.casefold() == "true"


def _positive_integer(text: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9][0-9]{0,17}\s*", text):
        raise ValueError("it is a whole number above 0")
    return int(text)


def _integer(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", text):
        raise ValueError("it is a whole number")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"\s*[0-9]{1,15}(\.[0-9]*)?\s*", text):
        raise ValueError("it is a number, 0 or more")
    return float(text)


def _fraction(text: str) -> float:
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
        offsets = {
            topic: {int(number): offset for number, offset in by_partition.items()}
            for topic, by_partition in _json(text).items()
        }
    except (ValueError, AttributeError):
        offsets = {}
    if not offsets or not all(
        type(offset) is int and offset >= -2 for by_partition in offsets.values() for offset in by_partition.values()
    ):
        raise ValueError('it is earliest, latest, or JSON like {"orders": {"0": 23, "1": -2}}')
    return offsets


_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_PARSERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.TEXT: str,
    Kind.SECRET: str,
    Kind.BOOLEAN: _boolean,
    Kind.POSITIVE_INTEGER: _positive_integer,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.FRACTION: _fraction,
    Kind.INTERVAL: parse_interval_s,
    Kind.DURATION: _duration,
    Kind.JSON: _json,
    Kind.OFFSETS: _offsets,
}
