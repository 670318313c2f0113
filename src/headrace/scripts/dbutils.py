"""``dbutils`` of scripts and notebooks: secrets, widgets, files and notebooks. Everything else is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from headrace.scripts.file_system import FileSystem
from headrace.scripts.widgets import Widgets
from headrace.settings.dbutils import DbUtils, refuse
from headrace.settings.secrets import Secrets

_WORKING = "Of dbutils.notebook, run and exit work."
# Runs a notebook with values for its widgets, and returns what it exits with.
RunNotebook = Callable[[str, Mapping[str, str]], str]


class NotebookExit(SystemExit):
    """Raised by ``dbutils.notebook.exit``: ends the notebook with a value."""

    def __init__(self, value: str) -> None:
        super().__init__(0)
        self.value = value


class NotebookUtils:
    """``dbutils.notebook``, with the vendor's names."""

    def __init__(self, run: RunNotebook) -> None:
        self._run = run

    def exit(self, value: Any) -> NoReturn:
        """End the notebook with a value.

        Raises:
            NotebookExit: always.
        """
        raise NotebookExit(str(value))

    def run(self, path: str, timeout_seconds: int = 0, arguments: Mapping[str, Any] | None = None) -> str:
        """Run another notebook in a namespace of its own; returns what it exits with.

        Args:
            path: of the notebook, relative to the one that calls.
            timeout_seconds: ignored: the notebook runs to its end.
            arguments: values of its widgets.
        """
        del timeout_seconds
        return self._run(path, {name: str(value) for name, value in (arguments or {}).items()})

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"notebook.{name}", _WORKING)

    def __repr__(self) -> str:
        return "dbutils.notebook"


class ScriptDbUtils(DbUtils):
    """``dbutils`` for a script: that of pipeline files, plus widgets, files and notebooks."""

    def __init__(self, secrets: Secrets, widgets: Widgets, files: FileSystem, run: RunNotebook) -> None:
        super().__init__(secrets)
        self.widgets = widgets
        self.fs = files
        self.notebook = NotebookUtils(run)

    def help(self) -> None:
        """Print what works."""
        print("Of dbutils, fs, library.restartPython, notebook, secrets and widgets work.")  # noqa: T201 - it is asked for
