"""Errors as values: a code, a message, a location and a hint.

The texts are in ``conditions.toml``, so that the docs, the command line and the tests print the same words.
"""

from __future__ import annotations

import re
import shlex
import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any

from headrace.model.location import Location

# A detail that begins with a word is capitalized, also if a parameter supplies the word; names and quotes are not.
_BEGINS_WITH_WORD = re.compile(r"[a-z]+ ")
# The format spec of a parameter that is a word of a command, as in {name:q}.
_AS_WORD = "q"


class _Texts(string.Formatter):
    """Fills in templates; quotes parameters that are words of a command, so that the command can be pasted."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """The value, quoted for a shell if the template asks for it."""
        return shlex.quote(value) if format_spec == _AS_WORD else str(super().format_field(value, format_spec))


class ErrorKind(Enum):
    """The kind of an error, as in ``conditions.toml``."""

    PROJECT = "project"
    SOURCE = "source"
    RUNTIME = "runtime"


@dataclass(frozen=True)
class Condition:
    """One kind of problem: its texts are templates over the parameters of a :class:`PipelineError`.

    In ``hint``, ``{name:q}`` is a parameter that is quoted for a shell. The head of ``conditions.toml`` explains
    ``kind`` and ``retry``.
    """

    code: str
    message: str
    hint: str
    detail: str = ""
    meaning: str = ""
    kind: ErrorKind = ErrorKind.PROJECT
    retry: bool | None = None
    exit: int | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: that of the entry, otherwise that of the kind."""
        return self.exit if self.exit is not None else 1 if self.kind is ErrorKind.RUNTIME else 2

    @property
    def plain_hint(self) -> str:
        """The hint as a template for people: each parameter is a name in braces."""
        return self.hint.replace(f":{_AS_WORD}}}", "}")


@cache
def conditions() -> Mapping[str, Condition]:
    """Every condition by its code, in the order of the file."""
    raw = tomllib.loads(files("headrace").joinpath("conditions.toml").read_text(encoding="utf-8"))
    return {
        f"{group}.{name}": Condition(f"{group}.{name}", **_with_kind(entry))
        for group, entries in raw.items()
        for name, entry in entries.items()
    }


@dataclass(frozen=True)
class SparkCondition:
    """What we know about an error condition of Spark or Delta; ``spark_conditions.toml`` explains the fields."""

    prefix: str = ""
    kind: ErrorKind | None = None
    retry: bool | None = None
    wraps: bool = False
    means: str | None = None
    advice: str | None = None


@cache
def _spark_conditions() -> tuple[SparkCondition, ...]:
    """All entries, the longest prefix first."""
    raw = tomllib.loads(files("headrace").joinpath("spark_conditions.toml").read_text(encoding="utf-8"))
    made = (SparkCondition(prefix, **_with_kind(entry)) for prefix, entry in raw.items())
    return tuple(sorted(made, key=lambda condition: -len(condition.prefix)))


def _with_kind(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "kind": ErrorKind(entry["kind"])} if "kind" in entry else dict(entry)


def spark_condition(name: str | None) -> SparkCondition:
    """The entry of a condition; an empty one for most."""
    found = (known for known in _spark_conditions() if (name or "").startswith(known.prefix))
    return next(found, SparkCondition())


class HeadraceError(Exception):
    """Base of everything that Headrace raises on purpose."""


class PipelineError(HeadraceError):
    """One problem with a code, rendered the same on a terminal, in JSON and in the event log.

    Args:
        code: a key of ``conditions.toml``, such as ``GRAPH.CYCLE``.
        location: the place in the user's files, if there is one.
        params: the parameters of the templates; they are printed, so never pass a secret.
    """

    def __init__(self, code: str, /, *, location: Location | None = None, **params: Any) -> None:
        self.condition = conditions()[code]
        self.code = code
        self.location = location
        self.params = {name: str(value) for name, value in params.items()}
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The primary text: one line, no full stop."""
        return self.condition.message.format_map(self.params).replace("\n", "\\n")

    @property
    def detail(self) -> str:
        """More about this case, or an empty string."""
        text = self.condition.detail.format_map(self.params).strip()
        return text[:1].upper() + text[1:] if _BEGINS_WITH_WORD.match(text) else text

    @property
    def hint(self) -> str:
        """What the reader can do about it."""
        return _Texts().vformat(self.condition.hint, (), self.params).strip()

    def located(self, place: Location | None) -> PipelineError:
        """The same problem with a location, unless it has one."""
        return self if self.location is not None else PipelineError(self.code, location=place, **self.params)

    def to_json(self) -> dict[str, Any]:
        """The error as the contract's JSON object."""
        return {
            "code": self.code,
            "message": self.message,
            "detail": self.detail or None,
            "hint": self.hint or None,
            "location": self.location.to_json() if self.location else None,
            "params": self.params,
        }

    def render(self) -> str:
        """The error as plain text: headline, location, detail, hint."""
        lines = [f"error[{self.code}]: {self.message}"]
        if self.location:
            lines.append(f"  --> {self.location}")
        for label, text in (("detail", self.detail), ("hint", self.hint)):
            if text:
                first, *rest = text.splitlines()
                lines.append(f"  {label}: {first}")
                lines.extend(f"  {' ' * len(label)}  {line}" for line in rest)
        return "\n".join(lines)


class Problems(HeadraceError):
    """All problems of a project, reported together; never empty."""

    def __init__(self, errors: Iterable[PipelineError]) -> None:
        self.errors = tuple(sorted(errors, key=_reading_order))
        if not self.errors:
            raise ValueError("Problems needs at least one error")
        super().__init__("; ".join(error.message for error in self.errors))

    def __iter__(self) -> Iterator[PipelineError]:
        return iter(self.errors)

    def to_json(self) -> dict[str, Any]:
        """The first error and all of them, as the contract's JSON object."""
        return {"error": self.errors[0].to_json(), "problems": [error.to_json() for error in self.errors]}


class InternalError(HeadraceError):
    """A bug in Headrace; the message asks the reader to report it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. This is a bug in Headrace. Please report it with the log file.")


def raise_all(errors: Iterable[PipelineError]) -> None:
    """Raise :class:`Problems` when there is any error, otherwise do nothing."""
    found = tuple(errors)
    if found:
        raise Problems(found)


def problems_of(error: PipelineError | Problems) -> tuple[PipelineError, ...]:
    """The single errors behind either kind of exception."""
    return error.errors if isinstance(error, Problems) else (error,)


def _reading_order(error: PipelineError) -> tuple[str, int, int, str]:
    place = error.location
    return (*place.reading_order, error.code) if place else ("", 0, 0, error.code)
