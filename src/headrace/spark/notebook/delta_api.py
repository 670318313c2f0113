"""Delta's Python classes in a notebook session: imported from Delta's jar, with the session's names and paths."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.spark.notebook.notebook_session import NotebookSession, notebook_for

_MARK = "_headrace_patched"


def let_delta_be_imported(jars: Iterable[Path]) -> None:
    """Make ``from delta.tables import DeltaTable`` work, with three-part names, automatic schemas and mapped paths.

    An installed package of that name takes precedence.

    Args:
        jars: Delta's jars.
    """
    for jar in jars:
        if jar.name.startswith("delta-spark") and str(jar) not in sys.path:
            sys.path.append(str(jar))
    tables: Any = import_module("delta.tables")
    if getattr(tables.DeltaTable, _MARK, False):
        return
    setattr(tables.DeltaTable, _MARK, True)
    for name, resolve in (("forName", _name_to_read), ("forPath", _mapped), ("isDeltaTable", _mapped)):
        _wrap_class_method(tables.DeltaTable, name, resolve)
    _wrap_method(tables.DeltaTableBuilder, "tableName", _name_to_write)
    _wrap_method(tables.DeltaTableBuilder, "location", _mapped)


def _name_to_read(notebook: NotebookSession, name: str) -> str:
    return notebook.paths.map_statement(notebook.names.resolve_for_read(name))


def _name_to_write(notebook: NotebookSession, name: str) -> str:
    return notebook.names.resolve_for_write(name)


def _mapped(notebook: NotebookSession, path: str) -> str:
    return notebook.paths.map_path(path)


def _wrap_class_method(owner: type, name: str, resolve: Callable[[NotebookSession, str], str]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def calling(cls: type, sparkSession: Any, text: str, *arguments: Any, **options: Any) -> Any:  # noqa: N803 - Delta's name
        del cls
        notebook = notebook_for(sparkSession)
        return original(sparkSession, text if notebook is None else resolve(notebook, text), *arguments, **options)

    setattr(owner, name, classmethod(calling))


def _wrap_method(owner: type, name: str, resolve: Callable[[NotebookSession, str], str]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def calling(self: Any, text: str) -> Any:
        notebook = notebook_for(self._spark)
        return original(self, text if notebook is None else resolve(notebook, text))

    setattr(owner, name, calling)
