"""Runs updates as child processes: ``headrace run`` in a session of its own, so that signals reach it from here alone.

Nothing secret is on the command line: the child reads the settings itself, and has the environment of this process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.model.outcome import UpdateState
from headrace.project.lease_holders import Process
from headrace.project.scheduling.runner import BUSY, RunRequest
from headrace.schedules.queue import Ending, Result
from headrace.worker.owned_workers import OwnedWorkers

# Exit codes of the command line.
_FAILED, _LEASED, _UNAPPROVED, _INTERRUPTED = 1, 3, 4, 130
_LONGEST_MESSAGE = 500
# What each update printed is in two files.
KEPT_FILES = 400
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Printed:
    """The files with what an update printed, among the log files of the storage.

    Attributes:
        out: its result as JSON.
        errors: everything else.
    """

    out: Path
    errors: Path

    @classmethod
    def of(cls, logs: Path, request_id: str) -> Printed:
        """The files of a request."""
        return cls(logs / f"{request_id}.out.log", logs / f"{request_id}.err.log")


@dataclass(frozen=True)
class ChildRunner:
    """Starts ``headrace run`` for one project.

    Attributes:
        folder: of the project.
        profile: of the settings; None for the default.
        logs: the folder for what the process prints.
        environ: the environment of the process.
        command: the beginning of the command line.
        workers: in which verbs run that a warm worker can run; None for a JVM of their own.
        is_continuous: every update of the project runs until it is stopped, by its settings.
    """

    folder: Path
    profile: str | None
    logs: Path
    environ: Mapping[str, str]
    command: tuple[str, ...] = (sys.executable, "-m", "headrace")
    workers: OwnedWorkers | None = None
    is_continuous: bool = False

    def start(self, request: RunRequest) -> ChildUpdate:
        """See :class:`headrace.project.scheduling.runner.Runner`."""
        words = ["run", f"--cause={request.cause.value}", f"--request-id={request.request_id}"]
        words += [f"--refresh={','.join(request.refresh)}"] if request.refresh else []
        return self.start_verb(request.request_id, [*words, *(["--continuous"] if request.is_continuous else [])])

    def start_verb(self, name: str, words: Sequence[str]) -> ChildUpdate:
        """Start a verb.

        Args:
            name: of the files with what it prints; what comes before its first hyphen names the kind of verbs of which
                a number of files is kept.
            words: the verb, its options and its arguments.

        Raises:
            OSError: nothing was started.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        printed = Printed.of(self.logs, name)
        _remove_oldest(self.logs, name.partition("-")[0])
        environ: Mapping[str, str] = self.environ
        if self.workers is not None:
            words, environ = self.workers.prepared(self.folder, words, is_continuous=self.is_continuous)
        options = ["--project", str(self.folder), "--output", "json", "--quiet"]
        options += [] if self.profile is None else ["--profile", self.profile]
        with printed.out.open("wb") as out, printed.errors.open("wb") as errors:
            child = subprocess.Popen(
                [*self.command, *options, *words],
                cwd=self.folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                # Ctrl-C on a terminal reaches only this process, which passes it on.
                start_new_session=True,
            )
        return ChildUpdate(child, printed)


class ChildUpdate:
    """An update in a child process of this one."""

    def __init__(self, child: subprocess.Popen[bytes], printed: Printed) -> None:
        self._child = child
        self._printed = printed
        self._result: Result | None = None
        self._is_stopped = False
        found = Process.of(child.pid)
        self.process = None if found is None else (found.pid, found.started_at)

    def exit_code(self) -> int | None:
        """How the process ended; None while it runs, negative for a signal."""
        return self._child.poll()

    def poll(self) -> Result | None:
        """See :class:`headrace.project.scheduling.runner.RunningUpdate`."""
        code = self._child.poll()
        if code is not None and self._result is None:
            self._result = result_of(code, self._printed, is_stopped=self._is_stopped)
        return self._result

    def stop(self) -> None:
        """See :class:`headrace.project.scheduling.runner.RunningUpdate`."""
        self._is_stopped = True
        # It may have ended by itself.
        with suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGTERM)


def result_of(code: int, printed: Printed, *, is_stopped: bool) -> Result:
    """What the exit code of ``headrace run`` means, and what it printed.

    Args:
        code: the exit code; negative for a signal.
        printed: the files with its output.
        is_stopped: the scheduler asked it to stop.
    """
    document = document_of(printed)
    update_id, state = str(document.get("update_id") or ""), str(document.get("state") or "")
    message = _message(document) or last_line(printed)
    if code == 0:
        return Result(Ending.DONE, state or UpdateState.COMPLETED.value, update_id)
    if is_stopped and (code < 0 or code == _INTERRUPTED):
        return Result(Ending.STOPPED, state or UpdateState.CANCELED.value, update_id, message)
    if code == _LEASED:
        return Result(Ending.NOT_STARTED, BUSY, message=message)
    if code == _FAILED or code < 0:
        state = UpdateState.LOST.value if code < 0 else state or UpdateState.FAILED.value
        message = message or (f"the process was ended by signal {-code}" if code < 0 else "")
        return Result(Ending.FAILED, state, update_id, message)
    if code == _INTERRUPTED:
        return Result(Ending.OVER, state or UpdateState.CANCELED.value, update_id, message)
    return Result(Ending.OVER, "NOT_APPROVED" if code == _UNAPPROVED else "WRONG", update_id, message)


def document_of(printed: Printed) -> Mapping[str, Any]:
    """The JSON document that a process printed; empty if it printed none."""
    found = printed_value(printed)
    return found if isinstance(found, dict) else {}


def printed_value(printed: Printed) -> Any:
    """The JSON value that a process printed; None if it printed none."""
    with suppress(OSError, ValueError, RecursionError):
        return json.loads(_tail(printed.out))
    return None


def _message(document: Mapping[str, Any]) -> str:
    error = document.get("error")
    if not isinstance(error, dict):
        return ""
    text = f"{error.get('code')}: {error.get('message')}"
    return " ".join(text.split())[:_LONGEST_MESSAGE]


def last_line(printed: Printed) -> str:
    """The last line that a process printed beside its document; empty if it printed none."""
    with suppress(OSError):
        lines = _tail(printed.errors).decode(errors="replace").split("\n")
        return next((line.strip()[:_LONGEST_MESSAGE] for line in reversed(lines) if line.strip()), "")
    return ""


def _remove_oldest(logs: Path, kind: str) -> None:
    """Keep what the newest updates printed: a schedule of each minute makes thousands of files a day."""
    found = sorted(logs.glob(f"{kind}-*.log"), key=lambda file: file.stat().st_mtime_ns)
    for file in found[: max(0, len(found) - KEPT_FILES)]:
        file.unlink(missing_ok=True)


def _tail(file: Path) -> bytes:
    """The last bytes of a file: all of it, unless it is huge."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _MOST_BYTES))
        return stream.read()
