"""``Project``: what a program, a test and the command line do with a pipeline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pyspark.errors import PySparkException

from headrace.checkpoints.freshness import StoredState
from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.events.types import Event
from headrace.graph.resolved import Mode, ResolvedGraph
from headrace.graph.select import Selection, dataset_name, select
from headrace.model.outcome import Outcome
from headrace.model.rows import Rows
from headrace.plan.build import build_plan
from headrace.plan.steps import Plan
from headrace.project.explain import Explanation, FlowExplanation
from headrace.project.lease import Lease
from headrace.project.preview import preview_rows
from headrace.project.rehearsal import REAL, Rehearsal
from headrace.project.resolving import Resolver
from headrace.project.stored import make_storage, quarantined, quarantines, row_count, stored_tables, unusable
from headrace.project.update import Update, host_name
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings
from headrace.sql.readonly import check_readonly


class Project:
    """A pipeline in a folder. Opening reads the settings; a session comes with the first verb that needs one."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], rehearsal: Rehearsal = REAL) -> None:
        self.settings = settings
        self._environ = environ
        self._rehearsal = rehearsal
        self._secrets = settings.open_secrets(environ)
        # Texts of the project may have secrets in them: who prints one calls this first.
        self.redact: Callable[[str], str] = self._secrets.redact
        self._resolver = Resolver(settings, self._secrets, environ, rehearsal)

    @classmethod
    def open(
        cls,
        directory: Path | str | None = None,
        *,
        profile: str | None = None,
        configuration: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Project:
        """The project of the nearest settings file at or above *directory* (default: the working directory).

        Args:
            directory: where to start looking.
            profile: which of the settings' profiles to apply.
            configuration: entries of ``configuration`` that win over the file's.
            environ: the environment (default: the process's).

        Raises:
            PipelineError, Problems: the settings are missing or wrong.
        """
        environ = os.environ if environ is None else environ
        file = find_settings(Path(directory or Path.cwd()).absolute())
        return cls(load_settings(file, profile=profile, overrides=configuration or {}, environ=environ), environ)

    def validate(self) -> ResolvedGraph:
        """Everything short of writing: the resolved graph.

        Raises:
            Problems: everything that is wrong with the project, at once.
        """
        graph = self._resolver.resolve(unusable(self.settings)).graph
        self._plan(graph, Selection())
        return graph

    # Datasets, flows and what reads what are the same value.
    graph = validate

    def plan(self, selection: Selection | None = None) -> Plan:
        """What :meth:`run` would do and why; nothing is written.

        Raises:
            Problems: everything that is wrong with the project, or with the selection.
        """
        return self._plan(self._resolver.resolve(unusable(self.settings)).graph, selection or Selection())

    def run(
        self,
        refresh: Sequence[str] = (),
        full_refresh: Sequence[str] = (),
        *,
        full_refresh_all: bool = False,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """One update: every selected flow takes what is new.

        Args:
            refresh: tables to refresh (default: all).
            full_refresh: tables to clear first and to compute from the start.
            full_refresh_all: do that for all tables whose properties allow it.
            on_event: gets every event as it happens.

        Raises:
            Problems: everything that is wrong with the project; nothing was written.
            PipelineError: LEASE.HELD when another update of the pipeline runs.
        """
        selection = Selection(tuple(refresh), tuple(full_refresh), full_refresh_all)
        # Whatever is wrong is found before anything is written, the lease included.
        resolved = self._resolver.resolve(unusable(self.settings))
        self._plan(resolved.graph, selection)
        make_storage(self.settings)
        with Lease(Path(self.settings.layout.lease), host_name(self._environ), time.time) as lease:
            plan = self._plan(resolved.graph, selection)
            update = Update(self.settings, self._secrets, resolved, self._state, lease, self._rehearsal.at)
            return update.run(plan, selection, on_event)

    def status(self) -> Outcome | None:
        """The newest update by the event log, or None when there was none; needs no session."""
        return self.events().outcome()

    def events(self) -> EventReader:
        """The event log; needs no session."""
        return EventReader(self.settings.layout.events)

    def sql(self, query: str, *, write: bool = False) -> Rows:
        """A query over the pipeline's tables and its event log.

        Args:
            query: one statement.
            write: allow statements that change something.

        Raises:
            PipelineError: SQL.NOT_READ_ONLY, SQL.FAILED.
        """
        if not write:
            check_readonly(query)
        catalog = self._resolver.catalog()
        tables = dict(stored_tables(self.settings.layout, self.settings.naming))
        catalog.know(tables, ())
        for name, path in tables.items():
            catalog.register_path(name, path)
        catalog.register_event_views(self.settings.layout.events)
        try:
            frame = catalog.session.sql(catalog.names.spelled_query(query, self.settings.naming))
            return Rows(tuple(frame.columns), tuple(tuple(row) for row in frame.collect()))
        except PySparkException as error:
            reason = str(error).strip().splitlines()[0]
            raise PipelineError("SQL.FAILED", reason=self._secrets.redact(reason)) from error

    def preview(self, name: str, rows: int = 20) -> Rows:
        """Rows of one dataset computed on the tables as they are now; nothing is written.

        Raises:
            Problems: the project is wrong.
            PipelineError: DATASET.UNKNOWN, PREVIEW.INPUT_MISSING.
        """
        resolved = self._resolver.resolve()
        dataset = resolved.graph.by_name[dataset_name(resolved.graph, name, self.settings.naming)]
        return preview_rows(resolved.graph, dataset, resolved.catalog, self._state, rows)

    def explain(self, name: str) -> Explanation:
        """Kind, path, flows, checkpoint, schema, trigger and refresh effect of one dataset.

        Raises:
            Problems: the project is wrong.
            PipelineError: DATASET.UNKNOWN.
        """
        graph = self._resolver.resolve().graph
        dataset = graph.by_name[dataset_name(graph, name, self.settings.naming)]
        table = self._state.table(dataset.name) if dataset.kind.stored else None
        flows = []
        for flow in graph.flows_into(dataset.name):
            epoch = self._state.progress_of(flow).epoch
            streams = flow.mode in (Mode.APPEND, Mode.COMPLETE)
            checkpoint = str(self._state.checkpoint(flow, epoch)) if streams else None
            news = "computed by its readers" if flow.mode is Mode.VIEW else self._state.news(graph, flow).reason
            flows.append(FlowExplanation(flow, epoch, checkpoint, news))
        return Explanation(dataset, tuple(flows), table.version if table else None)

    def quarantine_list(self) -> tuple[tuple[str, int, Mapping[str, int]], ...]:
        """Each dataset with rows set aside: name, rows, and how many broke each rule; needs no session."""
        return quarantines(self.settings.layout, self.settings.naming)

    def quarantine_show(self, name: str, rows: int = 20) -> Rows:
        """The newest rows that were set aside for a dataset; needs no session.

        Raises:
            PipelineError: QUARANTINE.NONE.
        """
        return quarantined(self.settings.layout, self.settings.naming, name, rows)

    def tables(self) -> tuple[tuple[str, str, int | None], ...]:
        """Name, path and rows of every table in the storage; needs no session."""
        found = stored_tables(self.settings.layout, self.settings.naming)
        return tuple((str(name), path, row_count(path)) for name, path in found)

    @cached_property
    def _state(self) -> StoredState:
        settings = self.settings

        def known_epoch(flow: str, dataset: str) -> int | None:
            return self.events().last_epoch(flow, dataset)

        return StoredState(settings.layout, settings.naming, settings.id, time.time, known_epoch)

    def _plan(self, graph: ResolvedGraph, selection: Selection) -> Plan:
        selected = select(graph, selection, self.settings.naming)
        return build_plan(graph, self._state, selected.without(self._rehearsal.given))
