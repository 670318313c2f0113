"""Finds and removes old log files of a storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.model.maintenance import MaintenancePolicy, Task
from headrace.plan.maintenance import Action, ActionState, Size

# The oldest log files are removed above this size, whatever their age.
MOST_BYTES = 1024 * 1024 * 1024
# A process may still be writing a younger file.
_LEAST_AGE_S = 86_400.0
# The log of all sessions, and the modules that workers of a running update may still import.
_IN_USE = ("spark.log", "headrace-modules-")


@dataclass(frozen=True)
class ExpiredLogs:
    """Log files past their retention, and the action that removes them."""

    action: Action
    files: tuple[Path, ...]


def expired_logs(folder: Path, policy: MaintenancePolicy, now_s: float, *, is_held: bool) -> ExpiredLogs | None:
    """The log files past their retention, or too many; None if there are none.

    Keeps files of the last day, and, while an update is running, what it may be using.

    Args:
        folder: the folder of log files.
        policy: the settings.
        now_s: the time, in seconds since 1970.
        is_held: whether an update is running.
    """
    if not folder.is_dir():
        return None
    files = [(file, file.stat()) for file in sorted(folder.iterdir()) if file.is_file() and _is_log(file)]
    kept_bytes = sum(stat.st_size for _, stat in files)
    before, expired = Size(len(files), kept_bytes), []
    for file, stat in sorted(files, key=lambda found: found[1].st_mtime):
        age_s = now_s - stat.st_mtime
        if age_s < _LEAST_AGE_S or (is_held and file.name.startswith(_IN_USE)):
            continue
        if age_s > policy.logs_retain_s or kept_bytes > MOST_BYTES:
            expired.append(file)
            kept_bytes -= stat.st_size
    if not expired:
        return None
    after = Size(len(files) - len(expired), kept_bytes)
    count = f"{len(expired)} old log file{'' if len(expired) == 1 else 's'}"
    action = Action("logs", str(folder), Task.RETENTION, ActionState.PLANNED, count, before, after)
    return ExpiredLogs(action, tuple(expired))


def remove_logs(files: Iterable[Path]) -> None:
    """Remove log files; one that another process has removed does not matter."""
    for file in files:
        file.unlink(missing_ok=True)


def _is_log(file: Path) -> bool:
    return file.suffix == ".log" or file.name.startswith(_IN_USE)
