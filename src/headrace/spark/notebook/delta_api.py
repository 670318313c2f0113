"""Delta's Python classes in a ready session: they lie in Delta's jar, and take names and paths as the session does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.spark.notebook.notebook_session import NotebookSession, ready_for

_MARK = "_headrace_patched"


def let_delta_be_imported(jars: Iterable[Path]) -> None:
    """Let ``from delta.tables import DeltaTable`` work, with three-part names, schemas that come into being and paths.

    A package of that name that is installed goes first.

    Args:
        jars: Delta's.
    """
    for jar in jars:
        if jar.name.startswith("delta-spark") and str(jar) not in sys.path:
            sys.path.append(str(jar))
    tables: Any = import_module("delta.tables")
    if getattr(tables.DeltaTable, _MARK, False):
        return
    setattr(tables.DeltaTable, _MARK, True)
    for name, respelled in (("forName", _read), ("forPath", _placed), ("isDeltaTable", _placed)):
        _wrap_class_method(tables.DeltaTable, name, respelled)
    _wrap_method(tables.DeltaTableBuilder, "tableName", _written)
    _wrap_method(tables.DeltaTableBuilder, "location", _placed)


def _read(ready: NotebookSession, name: str) -> str:
    return ready.places.placed_text(ready.names.reading(name))


def _written(ready: NotebookSession, name: str) -> str:
    return ready.names.writing(name)


def _placed(ready: NotebookSession, path: str) -> str:
    return ready.places.placed(path)


def _wrap_class_method(owner: type, name: str, respelled: Callable[[NotebookSession, str], str]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def calling(cls: type, sparkSession: Any, text: str, *arguments: Any, **options: Any) -> Any:  # noqa: N803 - Delta's name
        del cls
        ready = ready_for(sparkSession)
        return original(sparkSession, text if ready is None else respelled(ready, text), *arguments, **options)

    setattr(owner, name, classmethod(calling))


def _wrap_method(owner: type, name: str, respelled: Callable[[NotebookSession, str], str]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def calling(self: Any, text: str) -> Any:
        ready = ready_for(self._spark)
        return original(self, text if ready is None else respelled(ready, text))

    setattr(owner, name, calling)
