"""The locked jars of every connector, as frozen values read from ``jars.lock.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from headrace.errors import PipelineError

ALWAYS = "delta"
_PACKAGED = "headrace-storage"


@dataclass(frozen=True)
class Jar:
    """One file by its coordinates, with the digest and the size that it must have."""

    organisation: str
    name: str
    revision: str
    sha256: str
    size: int

    @property
    def coordinates(self) -> str:
        """Organisation, name and revision, separated by colons."""
        return f"{self.organisation}:{self.name}:{self.revision}"

    @property
    def file(self) -> str:
        """The file's name in the cache."""
        return f"{self.name}-{self.revision}.jar"


@dataclass(frozen=True)
class Connector:
    """A connector that a project can request, and its jars."""

    name: str
    about: str
    jars: tuple[Jar, ...]


@cache
def connectors() -> Mapping[str, Connector]:
    """Every connector by its name, in the order of the lock."""
    return {
        name: Connector(name, entry["about"], tuple(_jar(**jar) for jar in entry["jars"]))
        for name, entry in _lock().items()
        if name != _PACKAGED
    }


def locked_jars(names: Iterable[str]) -> tuple[Jar, ...]:
    """The jars of Delta and of the connectors in *names*, each once.

    Raises:
        PipelineError: CONNECTOR.UNKNOWN: a name is not in the lock.
    """
    known = connectors()
    wanted = dict.fromkeys((ALWAYS, *names))
    for name in wanted:
        if name not in known:
            raise PipelineError("CONNECTOR.UNKNOWN", name=name, known=", ".join(known))
    return tuple(dict.fromkeys(jar for name in wanted for jar in known[name].jars))


def packaged_jar() -> Jar:
    """The jar that the package contains; its revision is the beginning of its digest."""
    entry = _lock()[_PACKAGED]
    return Jar("io.headrace", _PACKAGED, entry["sha256"][:12], entry["sha256"], entry["size"])


@cache
def _lock() -> Mapping[str, Any]:
    text = files("headrace.connectors").joinpath("jars.lock.toml").read_text(encoding="utf-8")
    lock: Mapping[str, Any] = tomllib.loads(text)
    return lock


def _jar(*, coordinates: str, sha256: str, size: int) -> Jar:
    organisation, name, revision = coordinates.split(":")
    return Jar(organisation, name, revision, sha256, size)
