"""Sends the project's modules to the Python workers, so that UDFs can import them on any machine."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_ARCHIVE_PREFIX = "headrace-modules-"
_LEFT_OUT = frozenset({"__pycache__", "storage", "tests"})


def ship_modules(session: SparkSession, import_root: Path, folder: Path) -> None:
    """Make every module below *import_root* importable in the workers; once for each state of the files."""
    sources = source_modules(import_root)
    if not sources:
        return
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for source in sources:
            # A fixed time, so that equal files give an equal archive.
            archive.writestr(zipfile.ZipInfo(str(source.relative_to(import_root))), source.read_bytes())
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()[:16]
    shipped = folder / f"{_ARCHIVE_PREFIX}{digest}.zip"
    if not shipped.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shipped.write_bytes(buffer.getvalue())
    context = session.sparkContext
    # Workers live on and keep the modules they imported; with another environment, Spark starts others.
    context.environment["HEADRACE_MODULES"] = digest
    includes: Any = context._python_includes  # noqa: SLF001 - there is no way to take a file back
    if shipped.name in includes:
        return
    # What was shipped before would hide what is shipped now when a project returns to an earlier state of its files.
    includes[:] = [name for name in includes if not name.startswith(_ARCHIVE_PREFIX)]
    # `addPyFile` would also put the archive on this process's path, where a later project finds modules of this one,
    # and read the directory of each archive that was ever there.
    context.addFile(str(shipped))
    includes.append(shipped.name)


def source_modules(root: Path) -> list[Path]:
    """The Python files below a folder that belong to the project, sorted."""
    found = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        if not any(part in _LEFT_OUT or part.startswith(".") or part == "site-packages" for part in parts):
            found.append(path)
    return sorted(found)
