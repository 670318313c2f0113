"""The folder that Spark is started from: the installed one, with Python modules that need no compiling.

Spark puts ``python/lib/pyspark.zip`` of its folder in front of the search path of each Python process that it starts
(``PythonUtils.sparkPythonPath``), and each query over a Python data source starts one. The archive has no compiled
modules, so that every process compiles what it imports: two thirds of its start. Here its place is taken by a folder in
which the installed modules are, whose compiled form is kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from headrace.connectors.fetch import cache_folder

_SCRIPT = Path("bin", "spark-submit")
_ARCHIVES = Path("python", "lib")
# Of the package; the rest are Python modules.
_PARTS = frozenset({"bin", "conf", "data", "jars", "licenses", "sbin"})


def spark_home(environ: Mapping[str, str]) -> Path | None:
    """A folder for SPARK_HOME of links into the installed PySpark, made if need be.

    None where another Spark was chosen with SPARK_HOME, where PySpark came without one, and where no links can be made:
    there Spark starts from where it would have.
    """
    installed = _installed("pyspark")
    if environ.get("SPARK_HOME") or installed is None or not (installed / _SCRIPT).is_file():
        return None
    archives = {file.name: _installed(file.name.partition("-")[0].removesuffix(".zip")) for file in _zips(installed)}
    modules = {name: module for name, module in archives.items() if module is not None}
    if len(modules) != len(archives):
        return None
    entries = [entry for entry in sorted(installed.iterdir()) if entry.is_dir() and entry.name in _PARTS]
    said = "\n".join(map(str, (installed, *entries, *modules)))
    home = cache_folder(environ) / "spark" / hashlib.sha256(said.encode()).hexdigest()[:16]
    try:
        return home if (home / _SCRIPT).is_file() else _made(home, entries, modules)
    except OSError:
        return None


def _installed(name: str) -> Path | None:
    found = find_spec(name)
    return None if found is None or found.origin is None else Path(found.origin).resolve().parent


def _zips(installed: Path) -> list[Path]:
    return sorted((installed / _ARCHIVES).glob("*.zip"))


def _made(home: Path, entries: list[Path], modules: Mapping[str, Path]) -> Path:
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    try:
        for entry in entries:
            (draft / entry.name).symlink_to(entry)
        for archive, module in modules.items():
            place = draft / _ARCHIVES / archive
            place.mkdir(parents=True)
            (place / module.name).symlink_to(module)
        os.rename(draft, home)  # noqa: PTH104 - fails where another process was first and its folder has something in it
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not (home / _SCRIPT).is_file():
            raise
    return home
