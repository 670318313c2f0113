"""What a new session starts from: the project's settings, and the defaults for its master."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.connectors.fetch import jars, storage_jar
from headrace.spark.session.default_confs import (
    DEFAULT_MASTER,
    cores_of,
    is_single_process,
    local_disk_confs,
    object_store_confs,
    session_confs,
    static_confs,
)
from headrace.spark.session.submitted_confs import MASTER

BASE_CONNECTOR = "delta"
# Connectors of places where a storage can be besides a disk.
OBJECT_STORES = frozenset({"s3", "hdfs"})


def class_path_jars(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The jars before Spark's own on the driver's class path: Delta's, so that the class archive covers it, and ours.

    Raises:
        PipelineError: CONNECTOR.* if they are missing.
    """
    return (*jars((BASE_CONNECTOR,), environ=environ), storage_jar(environ=environ))


def log_file(log_folder: Path) -> Path:
    """The path of Spark's log."""
    return log_folder / "spark.log"


@dataclass(frozen=True)
class SessionStart:
    """What a new session starts from; see ``open_session``."""

    name: str
    connectors: Collection[str]
    confs: Mapping[str, str] = field(repr=False)
    log_folder: Path
    environ: Mapping[str, str]
    folder: Path | None

    @property
    def master(self) -> str:
        """The master of the settings."""
        return self.confs.get(MASTER) or self.environ.get("HEADRACE_MASTER") or DEFAULT_MASTER

    def jars(self) -> tuple[Path, ...]:
        """The locked jars."""
        locked = jars({BASE_CONNECTOR, *self.connectors}, environ=self.environ)
        # Executors write files of state in object stores with a class of the package's own jar.
        return (*locked, storage_jar(environ=self.environ)) if OBJECT_STORES & frozenset(self.connectors) else locked

    def needed(self, master: str, first: Iterable[Path]) -> dict[str, str]:
        """What Headrace sets on this master."""
        return {
            **static_confs(master, str(self.log_folder / "warehouse")),
            **(local_disk_confs(self.confs) if is_single_process(master) else {}),
            **session_confs(cores_of(master)),
            **(object_store_confs() if OBJECT_STORES & frozenset(self.connectors) else {}),
            "spark.app.name": self.name,
            "spark.jars": ",".join(map(str, self.jars())),
            "spark.driver.extraClassPath": os.pathsep.join(map(str, first)),
        }
