"""The names that a script or notebook can use without an import."""

from __future__ import annotations

import os
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.project.loading import tool_calls
from headrace.scripts.dbutils import NotebookExit, ScriptDbUtils
from headrace.scripts.display import Display, display_html
from headrace.scripts.file_system import FileSystem
from headrace.scripts.notebook import find_notebook, run_steps
from headrace.scripts.widgets import Widgets
from headrace.settings.secrets import Secrets
from headrace.spark.notebook.notebook_session import NotebookSession


@dataclass(frozen=True)
class Namespace:
    """Makes the predefined names for scripts of one session."""

    notebook_session: NotebookSession
    secrets: Secrets

    def of(self, file: Path, widgets: Mapping[str, str]) -> dict[str, Any]:
        """The names for a script.

        Args:
            file: the script; paths of other notebooks are relative to it.
            widgets: values by name.
        """
        return {
            "spark": self.notebook_session.session,
            "sc": self.notebook_session.session.sparkContext,
            "dbutils": self.dbutils(file, widgets),
            "display": Display(self.notebook_session),
            "displayHTML": display_html,
            tool_calls.NAME: tool_calls.called,
        }

    def dbutils(self, file: Path, widgets: Mapping[str, str]) -> ScriptDbUtils:
        """``dbutils`` for a script."""

        def run(path: str, values: Mapping[str, str]) -> str:
            return self._run(file, path, values)

        return ScriptDbUtils(self.secrets, Widgets(widgets, os.environ), FileSystem(self.notebook_session.paths), run)

    def _run(self, file: Path, path: str, values: Mapping[str, str]) -> str:
        source = find_notebook(path, file.parent)
        module = types.ModuleType("__main__")
        module.__dict__.update({"__file__": str(source.file), **self.of(source.file, values)})
        try:
            run_steps(source, module, self.notebook_session)
        except NotebookExit as exit_:
            return exit_.value
        return ""
