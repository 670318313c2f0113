"""Options of readers and sinks as data: names, types, defaults, and how Headrace treats them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any


class Treatment(Enum):
    """How Headrace treats an option, or a key of the settings."""

    USED = "used"
    ACCEPTED = "accepted without effect"
    REFUSED = "refused"


class Kind(Enum):
    """The type of an option's value."""

    TEXT = "text"
    SECRET = "text, secret"  # noqa: S105 - a description
    BOOLEAN = "true or false"
    POSITIVE_INTEGER = "whole number above 0"
    NATURAL = "whole number, 0 or more"
    INTEGER = "whole number"
    NUMBER = "number, 0 or more"
    FRACTION = "number from 0 to 1"
    BYTES = "bytes"
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
class Option:
    """One option.

    Attributes:
        name: as documented; case-insensitive. ``a.*`` stands for every name that begins with ``a.``.
        kind: the type of its value.
        about: what it does; for an option that is ignored or refused, why.
        default: for people; empty for none.
        treatment: used, accepted without effect, or refused.
        fix: what to do instead of a refused option.
        values: the allowed values, if limited.
        formats: the file formats that it applies to; empty for all.
        required: nothing can be read without it.
        read_mode: which readers accept it.
        parse: a parser of its own, in place of that of its kind. It raises ValueError, or an error of ``re``.
    """

    name: str
    kind: Kind
    about: str
    default: str = ""
    treatment: Treatment = Treatment.USED
    fix: str = ""
    values: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    required: bool = False
    read_mode: ReadMode = ReadMode.BOTH
    parse: Callable[[str], Any] | None = None


def accepted(name: str, about: str) -> Option:
    """An option that is accepted but ignored."""
    return Option(name, Kind.TEXT, about, treatment=Treatment.ACCEPTED)


def refused(name: str, about: str, fix: str) -> Option:
    """An option that is refused by name."""
    return Option(name, Kind.TEXT, about, treatment=Treatment.REFUSED, fix=fix)


@dataclass(frozen=True)
class OptionErrors:
    """The error conditions for the options of a table."""

    unknown: str = "SOURCE.OPTION_UNKNOWN"
    refused: str = "SOURCE.OPTION_REFUSED"
    value: str = "SOURCE.OPTION_VALUE"
    missing: str = "SOURCE.OPTION_MISSING"
    # Of a table whose options belong to file formats.
    other_format: str = ""


@dataclass(frozen=True)
class OptionTable:
    """The options of one format of a source or a sink.

    Attributes:
        name: of the format.
        options: the options known by name.
        page: the reference page that lists them.
        passed_on: the prefix of options that go unchanged to the client; empty for none.
        errors: the error conditions.
    """

    name: str
    options: Sequence[Option]
    page: str = "docs/reference/sources.md"
    passed_on: str = ""
    errors: OptionErrors = field(default_factory=OptionErrors)

    def option(self, name: str) -> Option | None:
        """The option with a name, case-insensitive."""
        folded = name.casefold()
        prefixed = (option for prefix, option in self._by_prefix.items() if folded.startswith(prefix))
        return self._by_name.get(folded) or next(prefixed, None)

    @cached_property
    def _by_name(self) -> Mapping[str, Option]:
        return {option.name.casefold(): option for option in self.options}

    @cached_property
    def _by_prefix(self) -> Mapping[str, Option]:
        return {name[:-1]: option for name, option in self._by_name.items() if name.endswith(".*")}
