"""Ships archives of Python code to the executors of a session."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

_PACKAGE_PREFIX = "headrace-package-"


def archive_of(root: Path, files: Iterable[Path]) -> bytes:
    """An archive of files, named relative to *root*; equal files produce equal bytes."""
    buffer = io.BytesIO()
    names = {file.relative_to(root): file for file in files}
    folders = {folder for name in names for folder in name.parents if folder.parts}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        # Python imports a folder without __init__.py from an archive only if the archive has an entry of it.
        for folder in sorted(folders):
            archive.writestr(zipfile.ZipInfo(f"{folder.as_posix()}/"), b"")
        for name, file in names.items():
            # A fixed time.
            entry = zipfile.ZipInfo(name.as_posix())
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    return buffer.getvalue()


def ship_package(context: SparkContext) -> None:
    """Make this version of Headrace importable in the Python workers of a cluster, installed there or not."""
    package = Path(__file__).parents[2]
    included = included_archives(context)
    if any(name.startswith(_PACKAGE_PREFIX) for name in included):
        return
    files = sorted(file for file in package.rglob("*") if file.is_file() and file.parent.name != "__pycache__")
    content = archive_of(package.parent, files)
    # Spark serves the file from here as long as the session lasts, and removes the folder with it.
    folder: Any = context._temp_dir  # noqa: SLF001 - it has no public form
    file = Path(folder) / f"{_PACKAGE_PREFIX}{digest_of(content)}.zip"
    file.write_bytes(content)
    context.addFile(str(file))
    included.append(file.name)


def digest_of(content: bytes) -> str:
    """A short digest for the name of an archive."""
    return hashlib.sha256(content).hexdigest()[:16]


def included_archives(context: SparkContext) -> list[str]:
    """The names of the archives that the session's Python workers import from; changes take effect.

    `addPyFile` would also add an archive to the path of this process.
    """
    includes: Any = context._python_includes  # noqa: SLF001 - Spark cannot remove one
    names: list[str] = includes
    return names
