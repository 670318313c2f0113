"""The warm workers that one process starts for its verbs, keeps, and ends: at most so many at a time.

A worker ends with the process that owns it, also if that is killed; the verb that runs then may finish.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import PipelineError
from headrace.worker.client import BUSY_VARIABLE, RUN_COLD, START_VARIABLE, WARM_VERBS
from headrace.worker.control import DEFAULT_IDLE_MINUTES, WorkerControl

DEFAULT_MAX_WORKERS = 2
# How long a verb waits until a worker that was started listens. It imports what verbs need first.
_START_S = 30
# Between the starts of a worker that dies.
_BACKOFF_S = (1.0, 10.0, 60.0, 240.0)
# A worker that has lived so long is started again at once.
_HEALTHY_S = 60.0
_END_S = 30.0


@dataclass(frozen=True)
class OwnerOptions:
    """How workers are kept.

    Attributes:
        max_workers: how many at a time; 0 for none.
        idle_s: a worker ends when it had nothing to do for so long.
    """

    max_workers: int = DEFAULT_MAX_WORKERS
    idle_s: float = DEFAULT_IDLE_MINUTES * 60


@dataclass
class _Owned:
    """A worker that was started here."""

    process: subprocess.Popen[bytes]
    control: WorkerControl
    started_at: float
    wanted_at: float
    is_ending: bool = False


class OwnedWorkers:
    """The workers of this process; used from several threads.

    Args:
        options: how they are kept.
        environ: the environment variables of the workers, and of the verbs.
        say: shows a line.
        clock: seconds that never go back.
        control_of: the control of the worker of a project.
    """

    def __init__(
        self,
        options: OwnerOptions,
        environ: Mapping[str, str],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        control_of: Callable[[Path, Mapping[str, str]], WorkerControl] = WorkerControl,
    ) -> None:
        self._options = options
        self._environ = environ
        self._say = say
        self._clock = clock
        self._control_of = control_of
        self._lock = threading.Lock()
        self._owned: dict[Path, _Owned] = {}
        self._failures: dict[Path, int] = {}
        self._not_before: dict[Path, float] = {}
        self._is_closed = threading.Event()

    def wanted(self, root: Path) -> bool:
        """Start the worker of the project in a folder if there is room; returns at once.

        Returns whether a worker runs or starts, by whomever it was started.
        """
        with self._lock:
            if self._is_closed.is_set() or not self._options.max_workers or not hasattr(os, "pidfd_open"):
                return False
            owned = self._owned.get(root)
            if owned is not None and owned.process.poll() is not None:
                # It has just ended: nobody would answer a verb that waits for it.
                del self._owned[root]
                owned = None
            if owned is not None and not owned.is_ending:
                owned.wanted_at = self._clock()
                return True
            control = self._control_of(root, self._environ)
            try:
                found = control.status()
                if found is not None:
                    return found.state != "stopping"
                if self._clock() < self._not_before.get(root, 0.0) or not self._has_room():
                    return False
                self._start(root, control)
            except (PipelineError, OSError) as error:
                self._failed(root, error.message if isinstance(error, PipelineError) else str(error))
                return False
            return True

    def prepared(
        self, root: Path, words: Sequence[str], *, is_continuous: bool = False
    ) -> tuple[list[str], dict[str, str]]:
        """The words and the environment with which a process runs a verb, in the worker if it can.

        Args:
            root: the folder of the project.
            words: the verb first.
            is_continuous: by its settings, an update of the project runs until it is stopped.
        """
        verb, environ = words[0], dict(self._environ)
        if verb not in WARM_VERBS:
            return list(words), environ
        if verb == "run" and (is_continuous or "--continuous" in words):
            # It would keep the worker from everything else.
            return [verb, "--cold", *words[1:]], environ
        if self.wanted(root):
            environ[START_VARIABLE] = str(_START_S)
        if verb == "run":
            # It would have to wait for another update in any case.
            return [verb, "--wait", *words[1:]], environ
        if "--wait" not in words:
            environ[BUSY_VARIABLE] = RUN_COLD
        return list(words), environ

    def close(self) -> None:
        """End all workers, with the verbs that they run, and wait for them."""
        self._is_closed.set()
        with self._lock:
            owned = list(self._owned.values())
        for one in owned:
            one.is_ending = True
            with suppress(ProcessLookupError):
                one.process.terminate()
        for one in owned:
            try:
                one.process.wait(_END_S)
            except subprocess.TimeoutExpired:
                # Its JVM ends with it.
                one.process.kill()
                one.process.wait()

    def _has_room(self) -> bool:
        """Whether another worker may start; ends the one that was not used for the longest time if it is idle."""
        if len(self._owned) < self._options.max_workers:
            return True
        for one in sorted(self._owned.values(), key=lambda one: one.wanted_at):
            if one.is_ending:
                # There is room soon.
                return False
            status = one.control.status()
            if status is not None and status.state == "idle" and not status.waiting:
                self._end(one)
                return False
        return False

    def _start(self, root: Path, control: WorkerControl) -> None:
        now = self._clock()
        owned = _Owned(control.spawn(self._options.idle_s, os.getpid()), control, now, now)
        self._owned[root] = owned
        threading.Thread(target=self._watch, args=(root, owned), name="headrace-worker", daemon=True).start()

    def _watch(self, root: Path, owned: _Owned) -> None:
        """Wait for the end of a worker, and start it again if it died."""
        code = owned.process.wait()
        lived_s = self._clock() - owned.started_at
        with self._lock:
            if self._owned.get(root) is owned:
                del self._owned[root]
            if code == 0 or owned.is_ending or self._is_closed.is_set():
                return
            if lived_s >= _HEALTHY_S:
                self._failures.pop(root, None)
            how = (
                f"was ended by signal {-code}" if code < 0 else owned.control.last_words() or f"ended with code {code}"
            )
            pause_s = self._failed(root, how)
        if not self._is_closed.wait(pause_s):
            self.wanted(root)

    def _failed(self, root: Path, how: str) -> float:
        failures = self._failures.get(root, 0)
        self._failures[root] = failures + 1
        pause_s = _BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)]
        self._not_before[root] = self._clock() + pause_s
        self._say(f"the warm worker of {root.name} {how}; it starts again, verbs run without it meanwhile")
        return pause_s

    @staticmethod
    def _end(one: _Owned) -> None:
        """Let a worker end after what it does; does not wait for it."""
        one.is_ending = True
        with suppress(PipelineError):
            one.control.ask_to_stop()
