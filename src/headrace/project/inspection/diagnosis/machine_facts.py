"""The machine of a pipeline: its memory, whether its storage lasts, and whether Java ran out of memory."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import psutil

from headrace.assistant.doctor.facts import Machine
from headrace.settings.settings import Settings
from headrace.stores.uris import is_store_uri

# File systems in memory.
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - folders that are looked for, not used
_LOG = "spark.log"
_LOG_TAIL_BYTES = 256 * 1024
_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError[^\r\n]{0,200}|GC overhead limit exceeded")
# As the log pattern of Spark's log writes it, in the local time zone.
_STAMP = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.\d{3} ", re.MULTILINE)


def machine_of(settings: Settings, started_at: float) -> Machine:
    """The machine that this process runs on.

    Args:
        settings: the pipeline's.
        started_at: when the latest update began, in seconds since 1970; lines of Spark's log before it do not count.
    """
    mounts = tuple((Path(one.mountpoint), one.fstype) for one in psutil.disk_partitions(all=True))
    temporary = (*map(Path, _TEMPORARY), Path(tempfile.gettempdir()))
    return Machine(
        memory_bytes=psutil.virtual_memory().total,
        volatile="" if is_store_uri(settings.storage) else why_volatile(Path(settings.storage), mounts, temporary),
        project_is_volatile=bool(why_volatile(settings.root, mounts, temporary)),
        out_of_memory=out_of_memory(Path(settings.layout.logs) / _LOG, started_at),
    )


def why_volatile(folder: Path, mounts: Iterable[tuple[Path, str]], temporary: Iterable[Path]) -> str:
    """Why a folder does not outlive a restart of the machine; empty if it does, or if that is unknown.

    Args:
        folder: the folder, which may not exist.
        mounts: the mount points of the machine with the types of their file systems.
        temporary: folders for temporary files.
    """
    real = folder.resolve()
    for parent in temporary:
        if real.is_relative_to(parent.resolve()):
            return f"is in {parent}, a folder for temporary files"
    holding = [(point, kind) for point, kind in mounts if real.is_relative_to(point)]
    # Of several file systems at one point, the last one is seen.
    point, kind = max(reversed(holding), key=lambda one: len(one[0].parts), default=(Path("/"), ""))
    return f"is in memory: {point} is a {kind}" if kind in _IN_MEMORY else ""


def out_of_memory(log: Path, started_at: float) -> str:
    """The last line of a log that says that Java ran out of memory since a time; empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _LOG_TAIL_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    found = ""
    for line, at in _dated(text):
        match = _OUT_OF_MEMORY.search(line)
        if match is not None and at >= started_at:
            found = match[0]
    return found


def _dated(text: str) -> Iterator[tuple[str, float]]:
    """Each line, and the time of the newest line with one up to it; lines of a stack trace have none."""
    at = 0.0
    for line in text.splitlines():
        stamp = _STAMP.match(line)
        if stamp is not None:
            at = datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S").astimezone().timestamp()
        yield line, at
