"""The global options of one call, and the two streams it speaks on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any

import typer
from rich.console import Console

from headrace.cli.open_project import Opener, OpenProject, Place

_NONE: Mapping[str, str] = MappingProxyType({})


class Output(str, Enum):
    """Who reads the result."""

    TEXT = "text"
    JSON = "json"


class Loudness(int, Enum):
    """How much is said beside the result."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


@dataclass
class Invocation:
    """What every verb gets: how to open the project, and how to speak.

    With JSON, ``say`` goes to stderr, so that stdout holds the one document of ``result``.
    """

    opener: Opener
    place: Place = field(default_factory=lambda: Place(None, None))
    output: Output = Output.TEXT
    loudness: Loudness = Loudness.NORMAL
    # Takes secrets out of a text; there are none before a project was opened.
    redact: Callable[[str], str] = str

    @property
    def as_json(self) -> bool:
        """True when a program reads the result."""
        return self.output is Output.JSON

    @cached_property
    def console(self) -> Console:
        """Where progress and remarks go; colours only on a terminal."""
        return _console(stderr=self.as_json)

    def open(self, configuration: Mapping[str, str] = _NONE) -> OpenProject:
        """The project that the options name.

        Raises:
            PipelineError, Problems: it cannot be opened.
        """
        directory = self.place.directory
        project = self.opener(directory, profile=self.place.profile, configuration=configuration)
        self.redact = project.redact
        return project

    def result(self, text: str, value: Any) -> None:
        """Print the result: the text for a person, or the value as the one JSON document."""
        sys.stdout.write((json.dumps(value, ensure_ascii=False) if self.as_json else text) + "\n")
        sys.stdout.flush()

    def described(self, text: str, value: Any) -> None:
        """Print a result that quotes the project's own texts, into which secrets may have been put."""
        self.result(self.redact(text), self._redacted(value))

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {key: self._redacted(item) for key, item in value.items()}
        return [self._redacted(item) for item in value] if isinstance(value, list | tuple) else value

    def say(self, text: str) -> None:
        """A remark for a person; nothing depends on it."""
        if self.loudness is not Loudness.QUIET:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def invocation_of(context: typer.Context) -> Invocation:
    """The invocation that the command line made."""
    found = context.find_root().obj
    if not isinstance(found, Invocation):
        raise TypeError("verbs are called through the command line")
    return found


def error_console() -> Console:
    """Where errors for a person go."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=True)
