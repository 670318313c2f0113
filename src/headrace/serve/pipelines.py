"""The pipelines that the server shows: where they are, and what was last read of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.assistant.doctor.diagnose import Diagnosis
from headrace.errors import PipelineError, Problems
from headrace.events.past_updates import PastUpdate
from headrace.events.reader import EventReader
from headrace.events.recorded import Recorded, definitions_of, reports_of_flows
from headrace.metrics.trace import Trace
from headrace.model.maintenance import Task
from headrace.plan.maintenance import Action
from headrace.project.development.board import DevBoard
from headrace.project.inspection.diagnosis.pipeline_doctor import PipelineDoctor
from headrace.project.inspection.past_graph import PastGraph, past_graph
from headrace.project.inspection.pipeline_view import PipelineView, PipelineViewer
from headrace.project.inspection.update_trace import update_trace
from headrace.project.lease_holders import host_name, liveness
from headrace.project.maintenance.maintain import maintenance_of
from headrace.project.scheduling.schedule_view import ScheduleView, declared_view, schedule_view
from headrace.serve.remembered import Remembered
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings

NEWEST_UPDATES = 50
NEWEST_REPORTS = 200
# They are larger than other readings.
_TABLE_READINGS = 8
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class ServedPipeline:
    """A pipeline, read from its storage.

    Args:
        slug: its name in URLs.
        settings: the pipeline's.
        environ: the environment variables.
        now: the time in seconds since 1970.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        slug: str,
        settings: Settings,
        environ: Mapping[str, str],
        now: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.slug = slug
        self.settings = settings
        # What is known of it while it is being developed.
        self.board: DevBoard | None = None
        self._environ = environ
        self._now = now
        self._secrets = settings.open_secrets(environ)
        for resolve in (settings.resolved_configuration, settings.resolved_spark_conf, settings.resolved_parameters):
            # Only what was looked up can be redacted.
            with suppress(PipelineError, Problems):
                resolve(self._secrets, environ)
        self.redact: Callable[[str], str] = self._secrets.redact
        self._views = Remembered(clock)
        # One thread reads a view at a time.
        self._viewer = PipelineViewer(settings, environ, self._secrets, now, NEWEST_UPDATES)
        # What pages read beside the view.
        self.remembered = Remembered(clock)
        # Rows of tables: one reading at a time, which keeps no other page waiting.
        self.table_rows = Remembered(clock, _TABLE_READINGS)

    @property
    def name(self) -> str:
        """The name in its settings."""
        return self.settings.name

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables."""
        return self._environ

    def events(self) -> EventReader:
        """A reader of its event log, for one thread."""
        return EventReader(self.settings.layout.events)

    def check_readable(self) -> None:
        """Look for the newest version of its event log, and read nothing else.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        # A reader of its own: one that hangs keeps no page waiting.
        _ = self.events().position

    def view(self) -> PipelineView:
        """What it is like now, or was a moment ago. Several threads that ask at once wait for one reading."""
        return self._views.of("view", self._viewer.view)

    def updates(self, newest: int, before: int | None) -> tuple[PastUpdate, ...]:
        """So many updates, the newest first; with *before*, of those created before this sequence number.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        return self._viewer.updates(newest, before)

    def reports(self, flows: Iterable[str]) -> list[Recorded]:
        """The newest batches and reports of flows, oldest first.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        return reports_of_flows(self.events(), set(flows), NEWEST_REPORTS)

    def definitions(self, dataset: str) -> list[Recorded]:
        """The newest definitions of a dataset, the newest first.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        return definitions_of(self.events(), dataset, NEWEST_REPORTS)

    def trace(self, update_id: str) -> Trace | None:
        """Where the time of an update went.

        Raises:
            PipelineError: TRACE.NO_UPDATE, EVENTS.NOT_READABLE.
        """
        return update_trace(self.settings, self._environ, update_id, NEWEST_REPORTS)

    def past_graph(self, update_id: str) -> PastGraph:
        """The graph as an update saw it; of its id, the beginning is enough.

        Raises:
            PipelineError: TRACE.NO_UPDATE, EVENTS.NOT_READABLE.
        """
        lease, host = self.settings.layout.lease, host_name(self._environ)
        return past_graph(self.events(), update_id, lambda found: liveness(lease, host, self._now).may_run(found))

    def schedules(self) -> ScheduleView:
        """Its schedules now.

        Raises:
            PipelineError: EVENTS.NOT_READABLE, SCHEDULE.STATE_UNREADABLE.
        """
        return schedule_view(self.settings, self._environ, self._now)

    def declared_schedules(self) -> ScheduleView:
        """Its schedules without what was decided, for a state that cannot be read.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        return declared_view(self.settings, self._now)

    def due_maintenance(self, choose: Callable[[Sequence[str]], Sequence[str]]) -> tuple[Action, ...]:
        """What maintenance would do by now with the tables of some datasets.

        Args:
            choose: of the names of all datasets with tables, those to look at.
        """

        def no_parts(task: Task, *, dry_run: bool) -> tuple[Action, ...]:
            del task, dry_run
            return ()

        return maintenance_of(self.settings, self._environ, no_parts).due(choose)

    def diagnosis(self) -> Diagnosis:
        """What is wrong with it."""
        return PipelineDoctor(self.settings, self._environ).diagnose()


def served_pipelines(
    folders: Iterable[Path],
    profile: str | None,
    environ: Mapping[str, str],
    now: Callable[[], float],
    clock: Callable[[], float],
) -> dict[str, ServedPipeline]:
    """The pipelines of some folders, by their names in URLs; two folders with one storage are one pipeline.

    Raises:
        PipelineError, Problems: a folder has no project, or its settings are wrong.
    """
    found: dict[str, ServedPipeline] = {}
    storages: set[str] = set()
    for folder in folders:
        if not folder.is_dir():
            raise PipelineError("CLI.NO_FOLDER", folder=folder)
        settings = load_settings(find_settings(folder), profile=profile, environ=environ)
        if settings.layout.root in storages:
            continue
        storages.add(settings.layout.root)
        slug = next(one for one in _slugs(settings.name) if one not in found)
        found[slug] = ServedPipeline(slug, settings, environ, now, clock)
    return found


def redact_all(pipelines: Iterable[ServedPipeline]) -> Callable[[str], str]:
    """Removes the secrets of all pipelines."""
    redactions = [one.redact for one in pipelines]

    def redact(text: str) -> str:
        for one in redactions:
            text = one(text)
        return text

    return redact


def _slugs(name: str) -> Iterator[str]:
    """The name as a part of a URL, and others in case that it is taken."""
    slug = _UNSAFE.sub("-", name).strip("-") or "pipeline"
    yield slug
    number = 1
    while True:
        number += 1
        yield f"{slug}-{number}"
