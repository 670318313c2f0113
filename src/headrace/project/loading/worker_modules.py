"""Ships the project's modules to the Python workers, so that UDFs can import them on any machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark.cluster.worker_archives import archive_of, digest_of, included_archives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARCHIVE_PREFIX = "headrace-modules-"
_EXCLUDED = frozenset({"__pycache__", "storage", "tests"})


def ship_modules(session: SparkSession, import_root: Path, folder: Path) -> None:
    """Make every module below *import_root* importable in the workers; once per state of the files."""
    sources = source_modules(import_root)
    if not sources:
        return
    content = archive_of(import_root, sources)
    digest = digest_of(content)
    shipped = folder / f"{_ARCHIVE_PREFIX}{digest}.zip"
    if not shipped.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shipped.write_bytes(content)
    context = session.sparkContext
    # Workers are reused and keep their imported modules; with a changed environment, Spark starts new ones.
    context.environment["HEADRACE_MODULES"] = digest
    includes = included_archives(context)
    if shipped.name in includes:
        return
    # An archive shipped earlier would shadow this one if the project returns to an earlier state of its files.
    includes[:] = [name for name in includes if not name.startswith(_ARCHIVE_PREFIX)]
    # `addPyFile` would also add the archive to this process's path, so that a later project would find modules of this
    # one, and imports would read the directory of every archive ever added.
    context.addFile(str(shipped))
    includes.append(shipped.name)


def source_modules(root: Path) -> list[Path]:
    """The Python files in a folder that belong to the project, sorted."""
    found = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        if not any(part in _EXCLUDED or part.startswith(".") or part == "site-packages" for part in parts):
            found.append(path)
    return sorted(found)
