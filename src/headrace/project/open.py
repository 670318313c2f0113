"""``Project``: what a program, a test and the command line do with a pipeline."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.errors import PipelineError, raise_all
from headrace.events.types import Event
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selection, dataset_name
from headrace.graph.unavailable_sources import errors_of
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.model.outcome import Outcome
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.plan.backfills import Backfill, Replayed
from headrace.plan.steps import Plan
from headrace.project.early_stop import Ending
from headrace.project.explain_dataset import explanation
from headrace.project.explanation import Explanation
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.project.planning import Planning
from headrace.project.preview import Previewer
from headrace.project.recompute import recomputed
from headrace.project.resolution import Resolved, Resolver, Resolving
from headrace.project.sql_access import ask
from headrace.project.stored_project import StoredProject
from headrace.project.stored_tables import make_storage
from headrace.project.test_harness import REAL, Harness
from headrace.project.update import Update
from headrace.runtime.board import Board, left_of
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings
from headrace.spark.errors.spark_errors import innermost
from headrace.spark.jvm.causes import chain
from headrace.sql.readonly import check_readonly


class Project(StoredProject):
    """A pipeline in a folder. Opening reads the settings; a session comes with the first verb that needs one."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], rehearsal: Harness = REAL) -> None:
        super().__init__(settings, environ)
        self._rehearsal = rehearsal
        self._planning = Planning(settings, rehearsal)
        self._state = self._planning.state
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

    @property
    def continuous(self) -> bool:
        """True when the settings say that an update goes on until it is stopped."""
        return self.settings.continuous

    def validate(self) -> ResolvedGraph:
        """Everything short of writing: the resolved graph.

        Raises:
            Problems: everything that is wrong with the project, at once.
        """
        graph = self._resolver.resolve(self._planning.wanted(Selection(), leaves_out=False)).graph
        self._planning.plan(graph, Selection())
        return graph

    def graph(self) -> ResolvedGraph:
        """Datasets, flows and what reads what, also where an update could not do what the code says.

        Raises:
            Problems: everything that is wrong with the code.
        """
        kept, cleared = self._planning.kept(Selection()), self._planning.cleared(Selection())
        return self._resolver.resolve(Resolving(kept, cleared, taken=self._planning.taken)).graph

    def plan(self, selection: Selection | None = None) -> Plan:
        """What :meth:`run` would do and why; nothing is written.

        Raises:
            Problems: everything that is wrong with the project, or with the selection.
        """
        selection = selection or Selection()
        return self._planning.plan(
            self._resolver.resolve(self._planning.wanted(selection, leaves_out=True)).graph, selection
        )

    def run(
        self,
        refresh: Sequence[str] = (),
        full_refresh: Sequence[str] = (),
        *,
        full_refresh_all: bool = False,
        reset_checkpoint: Sequence[str] = (),
        accept_data_loss: bool = False,
        continuous: bool | None = None,
        stop: threading.Event | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """One update: every selected flow takes what is new, once or until the update is stopped.

        Args:
            refresh: tables to refresh (default: all).
            full_refresh: tables to clear first and to compute from the start.
            full_refresh_all: do that for all tables whose properties allow it.
            reset_checkpoint: flows whose progress is dropped while their tables are kept, each as ``FLOW`` or
                ``FLOW=START``; a start is ``earliest``, ``latest``, ``version:N`` or ``timestamp:T``.
            accept_data_loss: let a full refresh clear rows that its sources do not have any more.
            continuous: go on until stopped by a signal or by *stop* (default: what the settings say).
            stop: ends the update early once it is set, from any thread: batches that run may end within the grace time.
            on_event: gets every event as it happens.

        Raises:
            Problems: everything that is wrong with the project; nothing was written.
            PipelineError: LEASE.HELD when another update of the pipeline runs.
        """
        resets = tuple(reset_checkpoint)
        selection = Selection(tuple(refresh), tuple(full_refresh), full_refresh_all, resets, accept_data_loss)

        def planned(graph: ResolvedGraph, selection: Selection) -> Plan:
            return self._planning.plan(graph, selection, continuous=continuous)

        return self._update(selection, planned, on_event, stop, leaves_out=True)

    def backfill(self, wanted: Backfill, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """An update that runs the query of one stream as a batch over a range, into the same table, exactly once.

        A stream that has read nothing yet begins behind the range afterwards, without a gap and without an overlap.

        Raises:
            Problems, PipelineError: as :meth:`run`, and BACKFILL.* when the range cannot be loaded.
        """

        def planned(graph: ResolvedGraph, selection: Selection) -> Plan:
            del selection
            return self._planning.load(graph, wanted)

        return self._update(Selection(), planned, on_event, None, leaves_out=False)

    def replay(self, wanted: Replayed, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """An update that takes rows of a dataset out of quarantine and through its rules, each exactly once.

        Rows that pass are in the table afterwards; those that break a rule are dropped or set aside anew, with their
        new values.

        Raises:
            Problems, PipelineError: as :meth:`run`; QUARANTINE.NONE, and REPLAY.* when there is nothing to replay.
        """

        def planned(graph: ResolvedGraph, selection: Selection) -> Plan:
            del selection
            return self._planning.replay(graph, wanted)

        return self._update(Selection(), planned, on_event, None, leaves_out=False)

    def sql(self, query: str, *, write: bool = False, private: bool = False) -> Rows:
        """A query over the pipeline's tables, its persisted views and its event log.

        Args:
            query: one statement.
            write: allow statements that change something.
            private: show the private tables too.

        Raises:
            PipelineError: SQL.NOT_READ_ONLY, SQL.PRIVATE, SQL.FAILED; VIEW.UNUSABLE.
        """
        if not write:
            check_readonly(query)
        try:
            return ask(query, self._resolver.catalog(), self.settings, private=private, redact=self._secrets.redact)
        except (PySparkException, Py4JJavaError) as error:
            # Spark's own way of making an exception of Python out of one of Java's knows some of them alone.
            told = str(error) if isinstance(error, PySparkException) else innermost(tuple(chain(error))).message
            reason = told.strip().splitlines()[0]
            raise PipelineError("SQL.FAILED", reason=self._secrets.redact(reason)) from error

    def preview(self, name: str, rows: int = 20) -> Preview:
        """Rows of one dataset computed on the tables as they are now; nothing is written.

        Raises:
            Problems: the project is wrong, or a source of the dataset is away.
            PipelineError: DATASET.UNKNOWN, or what a flow would fail with.
        """
        resolved, dataset = self._resolved_with(name)
        _check_has_rows(resolved.graph, dataset)
        root, redact = self.settings.root, self._secrets.redact
        return Previewer(resolved.graph, resolved.catalog, self._state, root, redact).preview(dataset, rows)

    def explain(self, name: str) -> Explanation:
        """Kind, table, schema, flows, their checkpoints and positions, trigger and refresh effect of one dataset.

        Raises:
            Problems: the project is wrong, or all sources of the dataset are away.
            PipelineError: DATASET.UNKNOWN.
        """
        resolved, dataset = self._resolved_with(name, partly=True)
        graph = resolved.graph
        return explanation(graph, graph.by_name[dataset], self._planning, self.settings)

    def recompute(self, name: str) -> Rows:
        """All rows of one dataset as its queries give them when streams are read as batches; nothing is written.

        What the streams of a dataset have brought over many updates is, in the end, these rows.

        Raises:
            Problems: the project is wrong, or a source of the dataset is away.
            PipelineError: DATASET.UNKNOWN, RECOMPUTE.INPUT_MISSING.
        """
        resolved, dataset = self._resolved_with(name)
        _check_has_rows(resolved.graph, dataset)
        return recomputed(resolved.graph, dataset, resolved.catalog, self._state)

    def _resolved_with(self, name: str, *, partly: bool = False) -> tuple[Resolved, QualifiedName]:
        """The project with all of the flows of a dataset, or *partly* with some, whatever other sources are away."""
        resolved = self._resolver.resolve(replace(self._planning.wanted(Selection(), leaves_out=True), known=()))
        dataset = dataset_name(resolved.graph, name, self.settings.naming)
        if not partly or dataset in resolved.graph.absent:
            raise_all(errors_of(resolved.graph.away_into(dataset)))
        return resolved, dataset

    def _update(
        self,
        selection: Selection,
        planned: Callable[[ResolvedGraph, Selection], Plan],
        on_event: Callable[[Event], None] | None,
        stop: threading.Event | None,
        *,
        leaves_out: bool,
    ) -> Outcome:
        # Whatever is wrong is found before anything is written, the lease included.
        resolved = self._resolver.resolve(self._planning.wanted(selection, leaves_out=leaves_out))
        planned(resolved.graph, selection)
        make_storage(self.settings)
        host, terms = host_name(self._environ), self._rehearsal.terms
        file = Path(self.settings.layout.lease)

        left = selection

        def again(board: Board) -> tuple[Resolved, Plan]:
            nonlocal left
            left = left_of(left, board)
            now = self._resolver.resolve(self._planning.wanted(left, leaves_out=leaves_out))
            return now, planned(now.graph, left)

        with Ending(stop) as ending, Lease(file, host, time.time, terms=terms) as lease:
            update = Update(
                settings=self.settings,
                secrets=self._secrets,
                resolved=resolved,
                state=self._state,
                lease=lease,
                at=self._rehearsal.at,
                carry_out=lambda renamed: self._planning.carry_out(renamed, self._rehearsal.at),
                again=again,
            )
            return update.run(planned(resolved.graph, selection), selection, on_event, ending)


def _check_has_rows(graph: ResolvedGraph, name: QualifiedName) -> None:
    """Refuse a sink, which has no rows of its own.

    Raises:
        PipelineError: SINK.NO_ROWS.
    """
    if graph.by_name[name].kind is Kind.SINK:
        inputs = {str(given.name): None for flow in graph.flows_into(name) for given in flow.analysis.inputs}
        raise PipelineError("SINK.NO_ROWS", name=name, inputs=", ".join(inputs) or "its upstream tables")
