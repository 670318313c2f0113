"""Download the locked jars into the cache, once, and verify their digests."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.connectors.ivy import download
from headrace.connectors.lock import Jar, connectors, locked_jars, packaged_jar
from headrace.errors import PipelineError

_ATTEMPTS = 2
_CHUNK_BYTES = 1 << 20
_SCRATCH = ".fetch-"
STORAGE_JAR = Path(__file__).with_name("headrace-storage.jar")


class JarState(str, Enum):
    """The state of a jar in the cache."""

    PRESENT = "present"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class JarReport:
    """One locked jar and its state in the cache, for ``headrace jars list``."""

    connector: str
    jar: Jar
    path: Path
    state: JarState

    def to_json(self) -> dict[str, Any]:
        """The report as one JSON object."""
        return {
            "connector": self.connector,
            "coordinates": self.jar.coordinates,
            "sha256": self.jar.sha256,
            "size": self.jar.size,
            "path": str(self.path),
            "state": self.state.value,
        }


def jars(names: Iterable[str] = (), *, environ: Mapping[str, str], cache: Path | None = None) -> tuple[Path, ...]:
    """Files for ``spark.jars``: Delta's and those of the connectors in *names*, each with the locked digest.

    Missing files are downloaded; a damaged file is downloaded once more. Concurrent processes are safe: one downloads,
    the others wait, and readers never see a partial file.

    Args:
        names: connectors in the lock, such as ``kafka``.
        environ: provides HEADRACE_CACHE, XDG_CACHE_HOME, HOME, JAVA_HOME, PATH and HEADRACE_IVY_SETTINGS.
        cache: Headrace's cache folder (default: the one from *environ*).

    Raises:
        PipelineError: CONNECTOR.UNKNOWN, CONNECTOR.FETCH_FAILED, CONNECTOR.CHECKSUM, or CONNECTOR.JAVA.
    """
    return ensure_jars(locked_jars(names), _jar_folder(environ, cache), environ=environ)


def ensure_jars(wanted: Sequence[Jar], folder: Path, *, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files of *wanted* in *folder*; missing and damaged ones are downloaded first.

    Raises:
        PipelineError: CONNECTOR.FETCH_FAILED, CONNECTOR.CHECKSUM, or CONNECTOR.JAVA.
    """
    if _not_present(wanted, folder):
        with _exclusive(folder):
            _fetch(_not_present(wanted, folder), folder, environ)
    return tuple(folder / jar.file for jar in wanted)


def storage_jar(*, environ: Mapping[str, str], cache: Path | None = None) -> Path:
    """The package's own jar (``src/java``), copied into the cache.

    In the cache it keeps its name and time when the package is reinstalled, so the class archive, which records them,
    stays valid.

    Raises:
        PipelineError: CONNECTOR.DAMAGED_PACKAGE: the installed file does not match the lock.
    """
    jar, folder = packaged_jar(), _jar_folder(environ, cache)
    if _not_present([jar], folder):
        with _exclusive(folder), tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch:
            copy = Path(scratch, jar.file)
            if STORAGE_JAR.is_file():
                shutil.copyfile(STORAGE_JAR, copy)
            if _not_present([jar], copy.parent):
                raise PipelineError("CONNECTOR.DAMAGED_PACKAGE", file=STORAGE_JAR, digest=jar.sha256)
            copy.replace(folder / jar.file)
    return folder / jar.file


def jars_report(*, environ: Mapping[str, str], cache: Path | None = None) -> tuple[JarReport, ...]:
    """Every locked jar of every connector and its state in the cache; downloads nothing."""
    folder = _jar_folder(environ, cache)
    return tuple(
        JarReport(connector.name, jar, folder / jar.file, _state(jar, folder))
        for connector in connectors().values()
        for jar in connector.jars
    )


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Headrace's cache: HEADRACE_CACHE, else ``headrace`` below XDG_CACHE_HOME, else ``~/.cache/headrace``."""
    if environ.get("HEADRACE_CACHE"):
        return Path(environ["HEADRACE_CACHE"]).expanduser()
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "headrace"
    return Path(environ.get("HOME") or Path.home()) / ".cache" / "headrace"


def _jar_folder(environ: Mapping[str, str], cache: Path | None) -> Path:
    return ((cache or cache_folder(environ)) / "jars").absolute()


def _fetch(missing: Sequence[Jar], folder: Path, environ: Mapping[str, str]) -> None:
    """Download *missing*; retry damaged files once."""
    damaged = missing
    for _ in range(_ATTEMPTS):
        if not damaged:
            return
        damaged = _download_into(folder, damaged, environ)
    if damaged:
        raise PipelineError(
            "CONNECTOR.CHECKSUM",
            jars=", ".join(jar.coordinates for jar in damaged),
            digests=", ".join(jar.sha256 for jar in damaged),
        )


def _download_into(folder: Path, wanted: Sequence[Jar], environ: Mapping[str, str]) -> tuple[Jar, ...]:
    """Download into *folder*; move valid files there and return the jars whose files are damaged."""
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as name:
        scratch = Path(name)
        reason = download(wanted, scratch, environ=environ)
        states = {jar: _state(jar, scratch) for jar in wanted}
        for jar, state in states.items():
            if state is JarState.PRESENT:
                (scratch / jar.file).replace(folder / jar.file)
    absent = [jar.coordinates for jar, state in states.items() if state is JarState.MISSING]
    if absent:
        raise _fetch_failed(", ".join(absent), reason or "Ivy gave no reason", folder)
    return tuple(jar for jar, state in states.items() if state is JarState.DAMAGED)


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Create the folder and hold its lock; the system releases the lock whenever the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise _fetch_failed(
            "the cache folder cannot be created", f"{error.strerror}: {error.filename}", folder
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield


def _fetch_failed(what: str, reason: str, folder: Path) -> PipelineError:
    return PipelineError("CONNECTOR.FETCH_FAILED", jars=what, reason=reason, folder=folder)


def _not_present(wanted: Sequence[Jar], folder: Path) -> tuple[Jar, ...]:
    return tuple(jar for jar in wanted if _state(jar, folder) is not JarState.PRESENT)


def _state(jar: Jar, folder: Path) -> JarState:
    digest = hashlib.sha256()
    try:
        with (folder / jar.file).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return JarState.MISSING
    return JarState.PRESENT if digest.hexdigest() == jar.sha256 else JarState.DAMAGED
