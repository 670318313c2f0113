"""Where the classes that a start loads are kept in the form in which Java uses them, and how Java is told.

Loading, checking and linking some twenty thousand classes is a third of what a cold update costs. Java keeps them in an
archive if it is asked to (JEP 350, "Dynamic CDS Archives") and ignores one that does not fit its version or class path.
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
    """The archive of this Java and this Python environment, whether or not it is there.

    Args:
        java_version: what ``java -version`` prints.
        class_path: jars in front of Spark's own.
        home: where Spark is started from, unless that is where it is installed.
        environ: where the cache folder is looked up.
    """
    # The other lines speak of the options that Java was given, too.
    version = [line for line in java_version.splitlines() if " version " in line or "Runtime Environment" in line]
    said = "\n".join((*version, sys.prefix, str(home), *map(str, class_path)))
    return cache_folder(environ) / "classes" / f"{hashlib.sha256(said.encode()).hexdigest()[:16]}.jsa"


def making(archive: Path) -> str:
    """The option for Java that makes an archive when it ends."""
    return f'{_MAKES}"{archive}"'


def using(archive: Path, options: str) -> str:
    """The option for Java that uses an archive; none when there is no archive, or *options* speak of one already."""
    if not archive.is_file() or _MAKES in options or _USES in options:
        return ""
    return f'{_USES}"{archive}"'
