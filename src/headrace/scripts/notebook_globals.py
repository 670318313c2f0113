"""``dbutils`` and ``display`` for programs that import them: those of the last opened notebook session."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from headrace.errors import PipelineError
from headrace.scripts.display import Display, display_html
from headrace.scripts.namespace import Namespace
from headrace.scripts.script_storage import script_storage_of
from headrace.spark.notebook.notebook_session import NotebookSession, active_notebook

displayHTML = display_html  # noqa: N816 - the vendor's name


class _DbUtils:
    """``dbutils`` of the notebook session that is active when it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_dbutils(), name)

    def __repr__(self) -> str:
        return "dbutils"


def display(shown: Any, *arguments: Any, **options: Any) -> None:
    """Print the rows of a DataFrame, or of a stream batch by batch; anything else as its text.

    Raises:
        PipelineError: SCRIPT.NO_SESSION if there is no notebook session yet.
    """
    Display(_notebook_session("display"))(shown, *arguments, **options)


dbutils = _DbUtils()


def _dbutils() -> Any:
    notebook_session = _notebook_session("dbutils")
    found = sys.modules["__main__"].__dict__.get("dbutils")
    if found is not None and found is not dbutils:
        # A script run by ``headrace exec`` has its own.
        return found
    secrets = script_storage_of(Path.cwd(), os.environ).secrets
    return Namespace(notebook_session, secrets).dbutils(Path(sys.argv[0]).absolute(), {})


def _notebook_session(what: str) -> NotebookSession:
    notebook_session = active_notebook()
    if notebook_session is None:
        raise PipelineError("SCRIPT.NO_SESSION", what=what)
    return notebook_session
