"""Prepare a SPARK_HOME that links to the installed Spark, with Python modules that are already compiled.

Spark puts ``python/lib/pyspark.zip`` of its home first on the search path of each Python process that it starts
(``PythonUtils.sparkPythonPath``), and each query over a Python data source starts one. The archive has no compiled
modules, so each process compiles what it imports: two thirds of its start. This home replaces the archive by a folder
with the installed modules, whose compiled form is cached.
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
# The folders of the package to link; the rest are Python modules.
_PARTS = frozenset({"bin", "conf", "data", "jars", "licenses", "sbin"})


def spark_home(environ: Mapping[str, str]) -> Path | None:
    """The SPARK_HOME folder with links to the installed PySpark; created if necessary.

    None if SPARK_HOME is already set, PySpark includes no Spark, or links cannot be created. Spark then starts from its
    usual home.
    """
    installed = _installed("pyspark")
    if environ.get("SPARK_HOME") or installed is None or not (installed / _SCRIPT).is_file():
        return None
    archives = {file.name: _installed(file.name.partition("-")[0].removesuffix(".zip")) for file in _zips(installed)}
    modules = {name: module for name, module in archives.items() if module is not None}
    if len(modules) != len(archives):
        return None
    entries = [entry for entry in sorted(installed.iterdir()) if entry.is_dir() and entry.name in _PARTS]
    identity = "\n".join(map(str, (installed, *entries, *modules)))
    home = cache_folder(environ) / "spark" / hashlib.sha256(identity.encode()).hexdigest()[:16]
    try:
        return home if (home / _SCRIPT).is_file() else _create(home, entries, modules)
    except OSError:
        return None


def _installed(name: str) -> Path | None:
    found = find_spec(name)
    return None if found is None or found.origin is None else Path(found.origin).resolve().parent


def _zips(installed: Path) -> list[Path]:
    return sorted((installed / _ARCHIVES).glob("*.zip"))


def _create(home: Path, entries: list[Path], modules: Mapping[str, Path]) -> Path:
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    try:
        for entry in entries:
            (draft / entry.name).symlink_to(entry)
        for archive, module in modules.items():
            target = draft / _ARCHIVES / archive
            target.mkdir(parents=True)
            (target / module.name).symlink_to(module)
        os.rename(draft, home)  # noqa: PTH104 - fails if another process was first, because its folder is not empty
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not (home / _SCRIPT).is_file():
            raise
    return home
