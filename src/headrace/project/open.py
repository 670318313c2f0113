"""``Project``: a pipeline, for programs, tests and the command line."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.events.types import Event
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selected, Selection, select
from headrace.model.outcome import Outcome, UpdateCause
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.plan.backfills import BackfillRequest, ReplayRequest
from headrace.plan.steps import Plan
from headrace.project.adoption.adoptions import PipelineAdoptions
from headrace.project.changes.pipeline_changes import PipelineChanges
from headrace.project.changes.pipeline_updates import PipelineUpdates
from headrace.project.inspection.dataset_resolution import (
    OneDataset,
    explained,
    preview_rows,
    recomputed_rows,
    resolve_dataset,
)
from headrace.project.inspection.explanation import Explanation
from headrace.project.inspection.sql_access import run_statement
from headrace.project.planning.plan_update import Planning
from headrace.project.resolution.resolver import Resolver
from headrace.project.session_project import SessionProject
from headrace.project.test_harness import REAL, Harness
from headrace.settings.load import nearest_settings
from headrace.settings.settings import Settings


class Project(SessionProject):
    """A pipeline in a folder. Opening reads the settings; the first method that needs a session opens one."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], harness: Harness = REAL) -> None:
        super().__init__(
            settings,
            environ,
            self.session,
            lambda other: Project(other, environ, harness),
            lambda topics: self._updates.ask_brokers(topics),  # noqa: PLW0108 - it does not exist yet
        )
        self._harness = harness
        self._planning = Planning(settings, harness)
        self._state = self._planning.state
        self._resolver = Resolver(settings, self._secrets, environ, harness)
        self._updates = PipelineUpdates(
            settings,
            environ,
            harness,
            self._secrets,
            self._planning,
            self._resolver,
            self.alerts,
            self.metrics,
            self.savepoints,
            self.stages.swaps,
        )
        self.changes = PipelineChanges(self._updates)
        self.adoptions = PipelineAdoptions.of(settings, environ, self._state, self.graph, self.session, self.redact)

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
            directory: where to start the search.
            profile: the settings profile to apply.
            configuration: entries of ``configuration`` that override the file's.
            environ: the environment (default: the process's).

        Raises:
            PipelineError, Problems: the settings are missing or wrong.
        """
        environ = os.environ if environ is None else environ
        start = Path(directory or Path.cwd())
        return cls(nearest_settings(start, profile=profile, overrides=configuration or {}, environ=environ), environ)

    def validate(self) -> ResolvedGraph:
        """Check the whole project without writing; returns the resolved graph.

        Raises:
            Problems: all problems of the project.
        """
        with self._planning.reading():
            request = self._planning.tables.update_request(Selection(), skip_unavailable=False)
            graph = self._resolver.resolve(request).graph
            self._planning.plan(graph, Selection())
        return graph

    def graph(self) -> ResolvedGraph:
        """The datasets, the flows and their inputs, even if an update could not apply the code.

        Raises:
            Problems: all problems of the code.
        """
        return self._resolver.resolve(self._planning.tables.graph_request()).graph

    def plan(self, selection: Selection | None = None) -> Plan:
        """What :meth:`run` would do and why; writes nothing.

        Raises:
            Problems: all problems of the project or the selection.
        """
        return self.changes.plan(selection or Selection())

    def selected(self, selection: Selection) -> tuple[ResolvedGraph, Selected]:
        """The graph, and what a selection finds in it, if an update could do it; writes nothing.

        Raises:
            Problems: all problems of the project or the selection; rows that cannot be read again.
        """
        with self._planning.reading():
            found = self._planning.resolve(self._resolver.resolve, selection, skip_unavailable=False)
            graph = self._planning.plan(found.project.graph, found.selection).graph
            return graph, select(graph, found.selection, self.settings.naming)

    def run(
        self,
        refresh: Sequence[str] = (),
        full_refresh: Sequence[str] = (),
        *,
        full_refresh_all: bool = False,
        exclude: Sequence[str] = (),
        reset_checkpoint: Sequence[str] = (),
        accept_data_loss: bool = False,
        continuous: bool | None = None,
        cause: UpdateCause = UpdateCause.USER_ACTION,
        request_id: str | None = None,
        stop: threading.Event | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """Run one update: every selected flow processes new data, once or until the update is stopped.

        Args:
            refresh: datasets to refresh (default: all), each as a name or a selector: ``orders+`` (and all below),
                ``+orders`` (and all above), ``tag:nightly``, ``kind:sink``, ``source:kafka``, ``state:modified``.
            full_refresh: datasets to clear first and compute from the start, in the same form.
            full_refresh_all: clear and compute all tables whose properties allow it.
            exclude: datasets to leave out of all of these, in the same form.
            reset_checkpoint: flows to reset while keeping their tables, each as ``FLOW`` or ``FLOW=START``; a start is
                ``earliest``, ``latest``, ``version:N`` or ``timestamp:T``. A selector stands for all streams into its
                datasets that can be reset.
            accept_data_loss: let a full refresh clear rows that its sources no longer have.
            continuous: run until stopped by a signal or by *stop* (default: from the settings).
            cause: why it runs, for the event log.
            request_id: an id of the caller's. If an update with this id has run, nothing runs, and its outcome is
                returned: LOST if its process died.
            stop: stops the update early when set, from any thread; running batches may finish within the stop timeout.
            on_event: receives every event as it happens.

        Raises:
            Problems: all problems of the project; nothing was written.
            PipelineError: LEASE.HELD if another update of the pipeline is running; PLAN.NEEDS_APPROVAL or
                PLAN.REJECTED if the settings require an approval for it, and nothing was written.
        """
        resets = tuple(reset_checkpoint)
        names = tuple(refresh), tuple(full_refresh), full_refresh_all
        selection = Selection(*names, resets, accept_data_loss, tuple(exclude))

        def planned(graph: ResolvedGraph, selection: Selection) -> Plan:
            return self._planning.plan(graph, selection, continuous=continuous)

        return self._updates.run(selection, planned, on_event, stop, cause=cause, request_id=request_id)

    def backfill(self, request: BackfillRequest, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """Run an update that executes one stream's query as a batch over a range, into the same table, exactly once.

        A stream that has read nothing yet then starts after the range, without a gap or an overlap.

        Raises:
            Problems, PipelineError: as :meth:`run`, and BACKFILL.* if the range cannot be backfilled.
        """

        def planned(graph: ResolvedGraph, selection: Selection) -> Plan:
            del selection
            return self._planning.backfill(graph, request)

        return self._updates.run(Selection(), planned, on_event, skip_unavailable=False)

    def replay(self, request: ReplayRequest, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """Run an update that checks quarantined rows of a dataset again with its current rules, each exactly once.

        Rows that pass are written to the table; those that violate a rule are dropped or quarantined again, with their
        new values.

        Raises:
            Problems, PipelineError: as :meth:`run`; QUARANTINE.NONE, and REPLAY.* if there is nothing to replay.
        """

        def planned(graph: ResolvedGraph, selection: Selection) -> Plan:
            del selection
            return self._planning.replay(graph, request)

        return self._updates.run(Selection(), planned, on_event, skip_unavailable=False)

    def sql(
        self,
        query: str,
        *,
        write: bool = False,
        private: bool = False,
        also: Sequence[str] = (),
        limit: int | None = None,
    ) -> Rows:
        """Run a query over the pipeline's tables, its persisted views and its event log.

        Args:
            query: one statement.
            write: allow statements that change data.
            private: include the private tables.
            also: folders of other projects, or folders whose subfolders are projects, for ``system.lakeflow.*``.
            limit: the maximum number of rows; None for all.

        Raises:
            PipelineError: SQL.NOT_READ_ONLY, SQL.PRIVATE, SQL.FAILED; VIEW.UNUSABLE.
        """
        return run_statement(
            query,
            self._resolver.catalog,
            self.settings,
            write=write,
            private=private,
            limit=limit,
            also=also,
            environ=self._environ,
            redact=self._secrets.redact,
        )

    def preview(self, name: str, rows: int = 20) -> Preview:
        """Compute some rows of one dataset from the current tables; writes nothing.

        Raises:
            Problems: the project is wrong, or a source of the dataset is unavailable.
            PipelineError: DATASET.UNKNOWN, or the error with which a flow fails.
        """
        return preview_rows(self._one(name), rows, self._state, self.settings.root, self._secrets.redact)

    def explain(self, name: str) -> Explanation:
        """Kind, table, schema, flows, their checkpoints and positions, trigger and refresh effect of one dataset.

        Raises:
            Problems: the project is wrong, or all sources of the dataset are unavailable.
            PipelineError: DATASET.UNKNOWN.
        """
        with self._planning.reading():
            return explained(self._one(name, partly=True), self._planning, self.settings, time.time())

    def session(self) -> SparkSession:
        """The Spark session of the project; the first call opens it."""
        return self._resolver.catalog().session

    def recompute(self, name: str) -> Rows:
        """Compute all rows of one dataset with streams read as batches; writes nothing.

        After any number of updates, the streams of a dataset must have produced exactly these rows.

        Raises:
            Problems: the project is wrong, or a source of the dataset is unavailable.
            PipelineError: DATASET.UNKNOWN, RECOMPUTE.INPUT_MISSING.
        """
        return recomputed_rows(self._one(name), self._state)

    def _one(self, name: str, *, partly: bool = False) -> OneDataset:
        request = self._planning.tables.update_request(Selection(), skip_unavailable=True)
        return resolve_dataset(self._resolver, request, name, self.settings.naming, partly=partly)
