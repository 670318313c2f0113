"""What one executor reports about itself. Runs there by value, before the package is known to be importable."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path


def probe(modules: tuple[str, ...], folder: str | None, mark: str, parts: Iterable[int]) -> Iterator[dict[str, object]]:
    """The facts of the executor that runs this task.

    Args:
        modules: which must be importable.
        folder: in the storage; the driver wrote a file *mark* into it, and the task writes one for each part. None
            if the storage is in an object store, which each task reaches with the settings that the driver sends.
        mark: name and content of that file.
        parts: numbers of the task.
    """
    missing = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a broken package can raise anything
            missing[name] = f"{type(error).__name__}: {error}"
    is_visible, write_error = (True, None) if folder is None else _access(Path(folder), mark, parts)
    yield {
        "host": socket.gethostname(),
        "missing": missing,
        "storage_visible": is_visible,
        "write_error": write_error,
    }


def _access(folder: Path, mark: str, parts: Iterable[int]) -> tuple[bool, str | None]:
    """Whether the task reads the file of the driver, and why it cannot write one."""
    try:
        is_visible = (folder / mark).read_text(encoding="utf-8") == mark
    except OSError:
        is_visible = False
    write_error = None
    for part in parts if is_visible else ():
        try:
            (folder / f"{mark}.{part}").write_text(mark, encoding="utf-8")
        except OSError as error:
            write_error = os.strerror(error.errno or 0)
    return is_visible, write_error
