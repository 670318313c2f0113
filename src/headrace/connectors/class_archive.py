"""The class data sharing (CDS) archive: its location, and the Java options that create and use it.

Loading, verifying and linking some twenty thousand classes is a third of the cost of a cold update. Java can store them
in an archive (JEP 350, "Dynamic CDS Archives"), and ignores one that does not match its version or class path.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.connectors.fetch import cache_folder

_MAKES = "-XX:ArchiveClassesAtExit="
_USES = "-XX:SharedArchiveFile="


def archive_file(java_version: str, class_path: Iterable[Path], home: Path | None, environ: Mapping[str, str]) -> Path:
    """The path of the archive for this Java and Python environment; the file may not exist.

    Args:
        java_version: the output of ``java -version``.
        class_path: the jars before Spark's own.
        home: the folder that Spark is started from; None for the installed one.
        environ: determines the cache folder.
    """
    # The other lines also mention options that Java was given.
    version = [line for line in java_version.splitlines() if " version " in line or "Runtime Environment" in line]
    identity = "\n".join((*version, sys.prefix, str(home), *map(str, class_path)))
    return cache_folder(environ) / "classes" / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def create_archive_option(archive: Path) -> str:
    """The Java option that creates an archive when Java exits."""
    return f'{_MAKES}"{archive}"'


def use_archive_option(archive: Path, options: str) -> str:
    """The Java option that uses an archive; "" if none exists, or if *options* name one already."""
    if not archive.is_file() or _MAKES in options or _USES in options:
        return ""
    return f'{_USES}"{archive}"'
