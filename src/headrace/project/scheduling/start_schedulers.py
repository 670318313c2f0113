"""Runs the schedulers of pipelines beside something else, each in a thread: takes the lease, decides, and stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import PipelineError
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.project.scheduling.child_process import ChildRunner
from headrace.project.scheduling.pipeline_outside import PipelineOutside
from headrace.project.scheduling.runner import Runner
from headrace.project.scheduling.scheduler import Place, Scheduler
from headrace.project.scheduling.state_file import Replaced, StateFile, state_file
from headrace.schedules.state import State
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.stores.paths import storage_path
from headrace.worker.owned_workers import OwnedWorkers

# Until a pipeline has schedules; after a failure; until another process has released the lease.
_IDLE_S, _FAILED_S, _HELD_S, _DEFECT_S = 30.0, 15.0, 10.0, 60.0
# An update that is stopped may need this time besides the stop timeout: savepoints, the log, the end of its JVM.
_END_S = 45.0


@dataclass(frozen=True)
class ScheduledPipeline:
    """A pipeline whose schedules run here.

    Attributes:
        settings: the pipeline's.
        profile: of the settings, for the updates; None for the default.
        redact: removes secrets from a text.
        workers: in which updates run; None for a JVM of their own.
    """

    settings: Settings
    profile: str | None
    redact: Callable[[str], str]
    workers: OwnedWorkers | None = None


@contextmanager
def running_schedulers(
    pipelines: Iterable[ScheduledPipeline], environ: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[None]:
    """Run the schedules of pipelines inside the block. At its end, running updates are stopped in an orderly way.

    Args:
        pipelines: whose schedules to run.
        environ: the environment variables, also of the updates.
        say: shows a line.
    """
    threads = [SchedulerThread(pipeline, environ, say) for pipeline in pipelines]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.stop()
        for thread in threads:
            thread.join()


class SchedulerThread:
    """Runs the schedules of one pipeline, while no other process does.

    Args:
        pipeline: whose schedules.
        environ: the environment variables.
        say: shows a line.
        runner: starts updates (default: child processes).
    """

    def __init__(
        self,
        pipeline: ScheduledPipeline,
        environ: Mapping[str, str],
        say: Callable[[str], None],
        runner: Runner | None = None,
    ) -> None:
        settings = pipeline.settings
        self._settings = settings
        self._redact = pipeline.redact
        self._say_line = say
        host = host_name(environ)
        self._place = Place(host, settings.storage, time.time, time.sleep, self._say)
        logs = Path(settings.layout.logs)
        self._runner = runner or ChildRunner(
            settings.root,
            pipeline.profile,
            logs,
            environ,
            workers=pipeline.workers,
            is_continuous=settings.continuous,
        )
        self._outside = PipelineOutside(settings, host, time.time, time.monotonic, self._say)
        self._wake = threading.Event()
        self._is_stopping = False
        self._said = ""
        self._thread = threading.Thread(target=self._run, name=f"headrace-schedules-{settings.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; returns at once."""
        self._is_stopping = True
        self._wake.set()

    def join(self) -> None:
        """Wait until it has ended, with the update that it has started."""
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                pause_s = self._lead() if self._outside.schedules() else _IDLE_S
            except PipelineError as error:
                is_held = error.code == "LEASE.HELD"
                who = f"; {error.detail}" if is_held and error.detail else ""
                self._say_once("another process runs the schedules" + who if is_held else error.render())
                pause_s = _HELD_S if is_held else _FAILED_S
            except Replaced:
                self._say_once("another process has taken over the schedules")
                pause_s = _HELD_S
            except OSError as error:
                self._say_once(f"the schedules do not run: {error.strerror or type(error).__name__}: {error.filename}")
                pause_s = _FAILED_S
            except Exception as error:  # noqa: BLE001 - the thread must not die of a defect, nor print secrets
                self._say_once(f"the schedules do not run, a bug in Headrace: {type(error).__name__}: {error}")
                pause_s = _DEFECT_S
            self._wake.wait(pause_s)

    def _lead(self) -> float:
        """Take the lease, and run the schedules until it is lost, or the thread has to end.

        Raises:
            PipelineError: LEASE.HELD, and others.
            Replaced, OSError: as :class:`Scheduler`.
        """
        layout = self._settings.layout
        file = storage_path(layout.monitoring(MonitoringFile.SCHEDULE_LEASE))
        with Lease(file, self._place.host, time.time) as lease:
            lease.when_lost(self._wake.set)
            state = _LeasedFile(state_file(storage_path(layout.monitoring(MonitoringFile.SCHEDULES))), lease)
            scheduler = Scheduler(self._place, self._outside, state, self._runner, lease.number)
            names = ", ".join(schedule.name for schedule in self._outside.schedules() or ())
            self._say_once(f"schedules run here: {names}")
            while not self._is_stopping:
                lease.check()
                if self._wake.wait(scheduler.step()):
                    # The lease was lost, which the check says, or the thread has to end.
                    self._wake.clear()
            scheduler.finish(self._settings.stop_timeout_s + _END_S)
        return 0.0

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say(text)

    def _say(self, text: str) -> None:
        self._say_line(self._redact(f"{self._settings.name}: {text}"))


class _LeasedFile:
    """The file of a state, which is written only while the lease is held."""

    def __init__(self, file: StateFile, lease: Lease) -> None:
        self._file, self._lease = file, lease

    def read(self) -> State:
        """See :class:`StateFile`."""
        return self._file.read()

    def write(self, state: State) -> None:
        """See :class:`StateFile`; raises PipelineError LEASE.LOST too."""
        self._lease.check()
        self._file.write(state)
