"""What a scheduler knows of a pipeline: from its settings, its event log, its lease, and what its schedules watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from headrace.errors import PipelineError
from headrace.events.past_updates import PastUpdate, past_updates
from headrace.events.reader import EventReader
from headrace.model.liveness import Liveness
from headrace.project.lease_holders import liveness
from headrace.project.scheduling.declared import DeclaredSchedules
from headrace.project.scheduling.earlier_updates import EarlierUpdate
from headrace.project.scheduling.observers import FileObserver, FreshnessObserver, Observer, TableObserver
from headrace.project.scheduling.pauses import read_pauses
from headrace.schedules.definition import FileArrival, Freshness, Schedule, TableUpdate
from headrace.schedules.due import Age, Change, Pause
from headrace.schedules.state import Run
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.stores.paths import storage_path

# Between two looks at files, tables or the event log, and for the first two so many times as long as one took.
_LEAST_PAUSE_S, _TIMES_ITS_COST = 10.0, 10
_UPDATES = 50
_Found = TypeVar("_Found")


@dataclass
class _Watched:
    """A schedule that is watched, and what was last seen."""

    digest: str
    observer: Observer
    looked_for: str | None = None
    next_at: float = 0.0
    found: Change | Age | None = None


class PipelineOutside:
    """See :class:`headrace.project.scheduling.scheduler.Outside`.

    Args:
        settings: the pipeline's.
        host: this machine's name.
        now: the time in seconds since 1970.
        clock: seconds that never go back.
        say: shows a line about what cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        host: str,
        now: Callable[[], float],
        clock: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._host = host
        self._now = now
        self._clock = clock
        self._say = say
        self._declared = DeclaredSchedules(settings)
        self._known: Sequence[Schedule] | None = None
        self._read_again_at = 0.0
        self._watched: dict[str, _Watched] = {}
        self._reader = EventReader(settings.layout.events)
        # What was said of a failure, until it is over.
        self._said: dict[str, str] = {}

    def schedules(self) -> Sequence[Schedule] | None:
        """See :class:`headrace.project.scheduling.scheduler.Outside`; the last ones while they cannot be read.

        The event log, which changes all the time while an update runs, is looked at some seconds after the last time.
        """
        if self._known is not None and self._clock() < self._read_again_at:
            return self._known
        declared = self._trying("the schedules", self._declared.current)
        self._read_again_at = self._clock() + _LEAST_PAUSE_S
        if declared is not None:
            self._known = declared.schedules
            for name, problem in declared.problems.items():
                self._note(name, f"schedule {name} starts no update: {problem}")
        return self._known

    def observe(self, schedule: Schedule, seen: str) -> Change | Age | None:
        """See :class:`headrace.project.scheduling.scheduler.Outside`."""
        watched = self._watched.get(schedule.name)
        if watched is None or watched.digest != schedule.digest:
            watched = self._watched[schedule.name] = _Watched(schedule.digest, self._observer(schedule))
        if watched.looked_for != seen or self._clock() >= watched.next_at:
            started = self._clock()
            watched.found = self._trying(f"what schedule {schedule.name} watches", partial(watched.observer.look, seen))
            watched.looked_for = seen
            cost_s = self._clock() - started
            watched.next_at = self._clock() + max(_LEAST_PAUSE_S, _TIMES_ITS_COST * cost_s)
        return watched.found

    def pauses(self) -> Mapping[str, Pause]:
        """See :class:`headrace.project.scheduling.scheduler.Outside`."""
        return read_pauses(storage_path(self._settings.layout.monitoring(MonitoringFile.PAUSES)))

    def is_busy(self) -> bool:
        """See :class:`headrace.project.scheduling.scheduler.Outside`."""
        return self._liveness().is_held

    def recovered(self, run: Run) -> EarlierUpdate:
        """See :class:`headrace.project.scheduling.scheduler.Outside`."""
        return EarlierUpdate(run, self._host, self._reader, self._liveness)

    def _liveness(self) -> Liveness:
        return liveness(self._settings.layout.lease, self._host, self._now)

    def _updates(self) -> tuple[PastUpdate, ...]:
        return past_updates(self._reader, _UPDATES, self._liveness()) if self._reader.exists else ()

    def _observer(self, schedule: Schedule) -> Observer:
        match schedule.timing:
            case FileArrival(path=path):
                return FileObserver(path, self._settings.paths, self._now)
            case TableUpdate(tables=tables, when=when) if tables:
                return TableObserver(partial(self._declared.paths_of, tables), when, self._now)
            case TableUpdate(when=when):
                (dataset,) = schedule.refresh
                return TableObserver(partial(self._tables_read_by, dataset), when, self._now)
            case Freshness() as timing:
                return FreshnessObserver(timing, self._updates)
            case _:
                raise TypeError(f"nothing to watch for {schedule.name}")

    def _tables_read_by(self, dataset: str) -> Mapping[str, str]:
        found = self._declared.current().tables_read_by(dataset)
        text = f'schedule dataset:{dataset} starts no update: "{dataset}" reads no Delta table'
        self._note(f"inputs of {dataset}", "" if found else text)
        return found

    def _trying(self, what: str, read: Callable[[], _Found]) -> _Found | None:
        try:
            found = read()
        except (PipelineError, OSError) as error:
            reason = error.message if isinstance(error, PipelineError) else error.strerror or type(error).__name__
            self._note(what, f"cannot read {what}: {reason}")
            return None
        self._note(what, "")
        return found

    def _note(self, what: str, text: str) -> None:
        """Say something once; an empty text is the end of it."""
        if text and self._said.get(what) != text:
            self._say(text)
        self._said[what] = text
