"""``Project``: what a program, a test and the command line do with a pipeline."""

from __future__ import annotations

import os
import platform
import signal
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.errors import PySparkException

from headrace.checkpoints.freshness import StoredState
from headrace.errors import PipelineError, Problems
from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.reader import EventReader
from headrace.events.types import DatasetDefined, Event, FlowDefined, UpdateCreated, UpdateMoved, Warned
from headrace.graph.build import build, did_you_mean
from headrace.graph.resolve import resolve
from headrace.graph.resolved import Mode, ResolvedGraph
from headrace.graph.select import Selection, select
from headrace.model.datasets import Kind
from headrace.model.names import InvalidName, QualifiedName
from headrace.model.outcome import FlowState, Outcome, UpdateState
from headrace.model.rows import Rows
from headrace.plan.build import build_plan
from headrace.plan.steps import Plan
from headrace.project.explain import Explanation, FlowExplanation
from headrace.project.files import load_files
from headrace.project.lease import held
from headrace.project.modules import ship_modules
from headrace.project.preview import preview_rows
from headrace.project.stored import quarantined, quarantines, row_count, stored_tables
from headrace.runtime.board import Board
from headrace.runtime.loop import run, state_of
from headrace.settings.dbutils import DbUtils
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings
from headrace.settings.sources import source_files
from headrace.spark.analyzer import StubAnalyzer
from headrace.spark.catalog import Catalog
from headrace.spark.flows import Surroundings, ThreadedFlows
from headrace.spark.session import open_session
from headrace.sql.readonly import check_readonly


@dataclass(frozen=True)
class _Resolved:
    """A project that was loaded: its session, names and graph."""

    catalog: Catalog
    graph: ResolvedGraph


class Project:
    """A pipeline in a folder. Opening reads the settings; a session comes with the first verb that needs one."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._environ = environ
        self._secrets = settings.open_secrets(environ)

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

    def __repr__(self) -> str:
        return f"Project({self.settings.name!r}, {str(self.settings.root)!r})"

    def validate(self) -> ResolvedGraph:
        """Everything short of writing: the resolved graph.

        Raises:
            Problems: everything that is wrong with the project, at once.
        """
        return self._resolve().graph

    def graph(self) -> ResolvedGraph:
        """Datasets, flows and what reads what; as :meth:`validate`."""
        return self.validate()

    def plan(self, selection: Selection | None = None) -> Plan:
        """What :meth:`run` would do and why; nothing is written.

        Raises:
            Problems: everything that is wrong with the project, or with the selection.
        """
        return self._plan(self._resolve().graph, selection or Selection())

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
        self._check_storage()
        with held(Path(self.settings.layout.lease), _now()):
            resolved = self._resolve()
            return self._update(resolved, self._plan(resolved.graph, selection), selection, on_event)

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
        catalog = self._catalog()
        tables = dict(stored_tables(self.settings.layout, self.settings.naming))
        catalog.know(tables, ())
        for name, path in tables.items():
            catalog.register_path(name, path)
        catalog.register_event_views(self.settings.layout.events)
        try:
            frame = catalog.session.sql(catalog.spelled_query(query, self.settings.naming))
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
        resolved = self._resolve()
        dataset = resolved.graph.by_name[self._dataset_name(resolved.graph, name)]
        return preview_rows(resolved.graph, dataset, resolved.catalog, self._state, rows)

    def explain(self, name: str) -> Explanation:
        """Kind, path, flows, checkpoint, schema, trigger and refresh effect of one dataset.

        Raises:
            Problems: the project is wrong.
            PipelineError: DATASET.UNKNOWN.
        """
        graph = self._resolve().graph
        dataset = graph.by_name[self._dataset_name(graph, name)]
        table = self._state.table(dataset.name) if dataset.kind.stored else None
        flows = []
        for flow in graph.flows_into(dataset.name):
            record = self._state.record(flow)
            epoch = record.epoch if record else 0
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
        return StoredState(self.settings.layout, self.settings.naming, self.settings.id, time.time)

    def _catalog(self) -> Catalog:
        settings = self.settings
        confs = dict(settings.resolved_spark_conf(self._secrets, self._environ))
        if settings.master:
            confs["spark.master"] = settings.master
        configuration = settings.resolved_configuration(self._secrets, self._environ)
        confs |= {key: value for key, value in configuration.items() if not key.startswith("pipelines.")}
        session = open_session(
            name=f"headrace {settings.name}",
            connectors=settings.connectors,
            confs=confs,
            log_folder=self._log_folder,
            environ=self._environ,
        )
        stubs = Path(tempfile.gettempdir()) / f"headrace-stubs-{os.getpid()}"
        catalog = Catalog(session, settings.layout, settings.naming, stubs)
        catalog.clear()
        return catalog

    @cached_property
    def _log_folder(self) -> Path:
        """The storage's log folder once there is a storage; a verb that only reads makes none."""
        logs = Path(self.settings.layout.logs)
        return logs if Path(self.settings.storage).is_dir() else Path(tempfile.mkdtemp(prefix="headrace-logs-"))

    def _resolve(self) -> _Resolved:
        settings = self.settings
        files = source_files(settings)
        catalog = self._catalog()
        session = catalog.session
        definitions, problems = load_files(
            files,
            root=settings.root,
            import_root=settings.root_path,
            naming=settings.naming,
            configuration=settings.resolved_configuration(self._secrets, self._environ),
            globals_={"spark": session, "dbutils": DbUtils(self._secrets)},
        )
        graph, more = build(definitions)
        views = [dataset.name for dataset in definitions.datasets if dataset.kind is Kind.TEMPORARY_VIEW]
        catalog.know([dataset.name for dataset in definitions.datasets], views)
        python = [file for file in settings.root_path.rglob("*.py") if _is_source(file, settings.root_path)]
        parameters = repr(sorted(settings.configuration.items()))
        analyzer = StubAnalyzer(catalog, definitions, settings.root, sorted(python), parameters)
        try:
            resolved = resolve(graph, analyzer, self._path_of, problems=(*problems, *more))
        except Problems as found:
            raise Problems([self._redacted(error) for error in found]) from None
        return _Resolved(catalog, resolved)

    def _path_of(self, name: QualifiedName) -> str:
        return self.settings.layout.table(self.settings.naming, name)

    def _plan(self, graph: ResolvedGraph, selection: Selection) -> Plan:
        return build_plan(graph, self._state, select(graph, selection, self.settings.naming))

    def _update(
        self, resolved: _Resolved, plan: Plan, selection: Selection, on_event: Callable[[Event], None] | None
    ) -> Outcome:
        settings = self.settings
        update_id = str(uuid.uuid4())
        began_at = _now()
        ship_modules(resolved.catalog.session, settings.root_path, Path(settings.layout.logs) / "modules")
        origin = Origin(settings.id, settings.name, update_id, host=socket.gethostname())
        log = EventLog(
            settings.layout.events,
            origin=origin,
            clock=_now,
            new_id=lambda: str(uuid.uuid4()),
            redact=self._secrets.redact,
        )
        with log:

            def emit(event: Event) -> None:
                log.emit(event)
                if on_event is not None:
                    on_event(event)

            emit(UpdateCreated("USER_ACTION", self._settings_said(), _selection_said(selection)))
            for warning in self._warnings(resolved.graph):
                emit(warning)
            for definition in _definitions_said(resolved.graph):
                emit(definition)
            emit(UpdateMoved(UpdateState.RUNNING))
            board, stopped = self._run_plan(resolved, plan, update_id, emit)
            state = state_of(board, stopped=stopped)
            error = next(
                (dict(s.error) for s in board.statuses.values() if s.state is FlowState.FAILED and s.error), None
            )
            emit(UpdateMoved(state, error))
        return Outcome(update_id, state, "USER_ACTION", began_at, _now(), board.outcomes(), error)

    def _run_plan(
        self, resolved: _Resolved, plan: Plan, update_id: str, emit: Callable[[Event], None]
    ) -> tuple[Board, bool]:
        settings = self.settings
        around = Surroundings(
            update_id=update_id,
            pipeline_id=settings.id,
            graph=resolved.graph,
            catalog=resolved.catalog,
            state=self._state,
            layout=settings.layout,
            naming=settings.naming,
            root=settings.root,
            emit=emit,
            known_counts=self.events().batch_counts,
            now=time.time,
            redact=self._secrets.redact,
            traces=Path(settings.layout.logs) / f"{update_id}.log",
        )
        flows = ThreadedFlows(around)
        with _stopping_on_signals(flows.ask_to_stop):
            board = run(
                plan,
                flows,
                _Clock(),
                emit,
                limit=settings.max_parallel_flows,
                max_retries=settings.max_flow_retries,
            )
        return board, flows.stopping

    def _check_storage(self) -> None:
        storage = Path(self.settings.storage)
        try:
            storage.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=storage):
                pass
        except OSError as error:
            raise PipelineError("STORAGE.UNUSABLE", path=storage, reason=error.strerror or error) from error

    def _dataset_name(self, graph: ResolvedGraph, text: str) -> QualifiedName:
        try:
            name = self.settings.naming.canonical(text)
        except InvalidName:
            name = QualifiedName(text)
        if name not in graph.by_name:
            known = [str(dataset.name) for dataset in graph.datasets]
            raise PipelineError("DATASET.UNKNOWN", name=text, suggestion=did_you_mean(text, known))
        return name

    def _redacted(self, error: PipelineError) -> PipelineError:
        params = {key: self._secrets.redact(value) for key, value in error.params.items()}
        return PipelineError(error.code, location=error.location, **params)

    def _settings_said(self) -> dict[str, object]:
        settings = self.settings
        return {
            "name": settings.name,
            "storage": settings.storage,
            "schema": settings.schema,
            "profile": settings.profile,
            "development": settings.development,
            "python": platform.python_version(),
        }

    def _warnings(self, graph: ResolvedGraph) -> Iterator[Warned]:
        for key, why in self.settings.notices:
            yield Warned(None, None, "SETTINGS.WITHOUT_EFFECT", f'setting "{key}" has no effect: {why}')
        for flow in graph.flows:
            if flow.mode is Mode.COMPLETE:
                yield Warned(
                    flow.name,
                    str(flow.target),
                    "FLOW.COMPLETE_MODE",
                    f'flow "{flow.name}" aggregates a stream without a watermark: each batch replaces the whole table',
                )
            if flow.mode is Mode.VIEW and graph.by_name[flow.target].dataset.expectations:
                yield Warned(
                    flow.name,
                    str(flow.target),
                    "EXPECTATION.VIEW_NOT_COUNTED",
                    f'expectations of temporary view "{flow.target}" are applied but not counted',
                )


class _Clock:
    """The real time."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def now(self) -> datetime:
        """The time of day, UTC."""
        return _now()


@contextmanager
def _stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ask for a stop on SIGINT and SIGTERM while the block runs; a second SIGINT interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}

    def handle(number: int, _frame: FrameType | None) -> None:
        stop()
        signal.signal(number, before[number])

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _definitions_said(graph: ResolvedGraph) -> Iterator[Event]:
    for dataset in graph.datasets:
        names = tuple(expectation.name for expectation in dataset.dataset.expectations)
        yield DatasetDefined(str(dataset.name), dataset.kind, dataset.path, names)
    for flow in graph.flows:
        yield FlowDefined(
            flow=flow.name,
            dataset=str(flow.target),
            inputs=tuple(str(given.name) for given in flow.analysis.inputs),
            language=flow.flow.query.language,
            mode=_FLOW_TYPES[flow.mode],
            once=flow.flow.once,
        )


_FLOW_TYPES = {
    Mode.APPEND: "APPEND",
    Mode.COMPLETE: "COMPLETE",
    Mode.ONCE: "APPEND",
    Mode.REPLACE: "MATERIALIZED_VIEW",
    Mode.VIEW: "VIEW",
}


def _selection_said(selection: Selection) -> dict[str, object]:
    return {
        "refresh": list(selection.refresh),
        "full_refresh": list(selection.full_refresh),
        "full_refresh_all": selection.full_refresh_all,
    }


def _is_source(file: Path, root: Path) -> bool:
    parts = file.relative_to(root).parts
    return not any(part.startswith(".") or part in ("storage", "site-packages") for part in parts)


def _now() -> datetime:
    return datetime.now(tz=timezone.utc)
