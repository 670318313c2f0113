"""The global options of one call, and its output streams."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.open_project import Opener, OpenProject, ProjectLocation
from headrace.cli.printable import json_text
from headrace.cli.terminal import folded, terminal_width, width_of

if TYPE_CHECKING:
    from rich.console import Console

_NONE: Mapping[str, str] = MappingProxyType({})


class Output(str, Enum):
    """The output format: text for people, JSON for programs."""

    TEXT = "text"
    JSON = "json"


class Verbosity(int, Enum):
    """How much is printed besides the result."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


@dataclass
class Invocation:
    """What every verb receives: how to open the project, and how to print.

    With JSON output, ``say`` prints to stderr, so that stdout holds only the document of ``result``.
    """

    opener: Opener
    location: ProjectLocation = field(default_factory=lambda: ProjectLocation(None, None))
    output: Output = Output.TEXT
    verbosity: Verbosity = Verbosity.NORMAL
    # Removes secrets from a text; there are none before a project is opened.
    redact: Callable[[str], str] = str
    # What a verb has found although it fails; part of the document that has the error.
    more_of_error: Mapping[str, Any] = field(default_factory=dict)

    @property
    def as_json(self) -> bool:
        """True if the output is JSON."""
        return self.output is Output.JSON

    @cached_property
    def console(self) -> Console:
        """The console for progress and notices; colours only on a terminal."""
        return _console(stderr=self.as_json)

    def open(self, configuration: Mapping[str, str] = _NONE) -> OpenProject:
        """Open the project that the options name.

        Raises:
            PipelineError, Problems: it cannot be opened.
        """
        directory = self.location.directory
        project = self.opener(directory, profile=self.location.profile, configuration=configuration)
        self.redact = project.redact
        return project

    @property
    def width(self) -> int | None:
        """The columns of the terminal that results are printed to; None in a pipe or a file, and for JSON."""
        return None if self.as_json else terminal_width(sys.stdout)

    def result(self, text: str, value: Any, *, folds: bool = True) -> None:
        """Print the result: the text, or with JSON output the value as the only document.

        On a terminal, long lines are folded at words; without *folds* they stay as they are, as programs need them.
        """
        shown = folded(text, self.width if folds else None)
        sys.stdout.write((json_text(value) if self.as_json else shown) + "\n")
        sys.stdout.flush()

    def result_redacted(self, text: str, value: Any, *, folds: bool = True) -> None:
        """Print a result with the secrets removed; it may quote the project's own texts, which can contain some."""
        self.result(self.redact(text), self.redacted(value), folds=folds)

    def redacted(self, value: Any) -> Any:
        """A value for programs, with the secrets removed from its texts."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {key: self.redacted(item) for key, item in value.items()}
        return [self.redacted(item) for item in value] if isinstance(value, list | tuple) else value

    def say(self, text: str) -> None:
        """Print a notice; nothing depends on it."""
        if self.verbosity is not Verbosity.QUIET:
            print_folded(self.console, text)


def invocation_of(context: typer.Context) -> Invocation:
    """The invocation of the command line."""
    found = context.find_root().obj
    if not isinstance(found, Invocation):
        raise TypeError("verbs are called through the command line")
    return found


def error_console() -> Console:
    """The console for errors."""
    return _console(stderr=True)


def print_folded(console: Console, text: str, style: str = "") -> None:
    """Print a notice; on a terminal, long lines are folded at words."""
    from rich.text import Text  # noqa: PLC0415 - slow to import, and most calls print no notice

    console.print(Text(folded(text, width_of(console)), style), highlight=False, soft_wrap=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and most calls print no notice

    return Console(stderr=stderr, highlight=False, soft_wrap=True)
