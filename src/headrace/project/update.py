"""One update of a resolved project: events, signals, the loop, the outcome."""

from __future__ import annotations

import platform
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from headrace.checkpoints.freshness import StoredState
from headrace.checkpoints.views import apply_view_step
from headrace.errors import InternalError, PipelineError
from headrace.events.envelope import Origin, redacted
from headrace.events.log import EventLog
from headrace.events.reader import EventReader
from headrace.events.replay import Replay
from headrace.events.types import BatchDone, DatasetDefined, Event, FlowDefined, UpdateCreated, UpdateMoved, Warned
from headrace.graph.resolved import Mode, ResolvedGraph
from headrace.graph.select import Selection
from headrace.model.outcome import Outcome, UpdateState
from headrace.plan.notices import without_effect
from headrace.plan.renames import Rename
from headrace.plan.steps import Plan
from headrace.project.hooks import Hooks
from headrace.project.lease import Lease
from headrace.project.planning import known_counts
from headrace.project.resolving import Resolved
from headrace.project.said import plan_said
from headrace.runtime.board import Board
from headrace.runtime.loop import first_error, run, state_of
from headrace.runtime.seam import Seam
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.spark.flows import ThreadedFlows
from headrace.spark.session import jvm_pid, make_active
from headrace.spark.surroundings import Surroundings

_CAUSE = "USER_ACTION"
_TOTAL_EVERY_BATCHES = 1000
_LOOK_FOR_STOP_EVERY_S = 0.2


@dataclass(frozen=True)
class Update:
    """What an update needs besides its plan."""

    settings: Settings
    secrets: Secrets
    resolved: Resolved
    state: StoredState
    lease: Lease
    at: Seam
    # Moves what has a new name; done once the event log knows of it.
    carry_out: Callable[[tuple[Rename, ...]], None]

    def run(
        self,
        plan: Plan,
        selection: Selection,
        on_event: Callable[[Event], None] | None,
        stop: threading.Event | None,
    ) -> Outcome:
        """Run the plan until it is done or *stop* is set; every event goes to the log and to *on_event*."""
        settings = self.settings
        update_id = str(uuid.uuid4())
        session = self.resolved.catalog.session
        self.lease.names_jvm(jvm_pid(session))
        origin = Origin(settings.id, settings.name, update_id, host=socket.gethostname())
        log = EventLog(
            settings.layout.events,
            origin=origin,
            clock=now,
            new_id=lambda: str(uuid.uuid4()),
            redact=self.secrets.redact,
            told=lambda row: hooks.tell(row),  # noqa: PLW0108 - there are no hooks before the log
        )
        # The outcome is what the log says: the same events, replayed as any other process would.
        replay = Replay(update_id)
        order = threading.Lock()
        batches = count(1)
        with log, ExitStack() as told:

            def emit(event: Event) -> None:
                # Whoever is told, on a terminal or in a program, is told no more than the log.
                event = redacted(event, self.secrets.redact)
                with order:
                    replay.apply(event, log.emit(event))
                    if isinstance(event, BatchDone) and next(batches) % _TOTAL_EVERY_BATCHES == 0:
                        # So that whoever asks for the status need not read all batches of an update that goes on.
                        log.emit(replay.total())
                if on_event is not None:
                    on_event(event)

            hooks = told.enter_context(Hooks(self.resolved.hooks, emit, lambda: make_active(session)))
            emit(UpdateCreated(_CAUSE, _settings_said(settings), _selection_said(selection)))
            for said in (
                *_warnings(settings, self.resolved.graph),
                *(Warned(code, message) for code, message in self.resolved.notices),
                *plan_said(plan),
                *_definitions_said(self.resolved.graph),
            ):
                emit(said)
            emit(UpdateMoved(UpdateState.RUNNING))
            try:
                ending = _Ending(stop)
                self.carry_out(plan.renames)
                board = self._run_plan(plan, update_id, emit, ending)
                self.lease.check()
            except BaseException as error:
                # Whoever reads the log must not wait for this update.
                said_error = error.to_json() if isinstance(error, PipelineError) else None
                emit(UpdateMoved(UpdateState.FAILED, said_error))
                raise
            emit(UpdateMoved(state_of(board, interrupted=ending.interrupted), first_error(board)))
        outcome = replay.outcome()
        if outcome is None:
            raise InternalError("the update left no event")
        return outcome

    def _run_plan(self, plan: Plan, update_id: str, emit: Callable[[Event], None], ending: _Ending) -> Board:
        settings = self.settings
        for step in plan.views:
            self.lease.check()
            apply_view_step(step, settings.layout, settings.naming)
        around = Surroundings(
            update_id=update_id,
            pipeline_id=settings.id,
            graph=self.resolved.graph,
            catalog=self.resolved.catalog,
            state=self.state,
            layout=settings.layout,
            naming=settings.naming,
            root=settings.root,
            emit=emit,
            known_counts=known_counts(EventReader(settings.layout.events), self.state, self.resolved.graph),
            now=time.time,
            redact=self.secrets.redact,
            traces=Path(settings.layout.logs) / f"{update_id}.log",
            at=self.at,
            fence=self.lease.check,
            grace_s=settings.stop_grace_s,
            max_parallel_flows=settings.max_parallel_flows,
        )
        flows = ThreadedFlows(around)
        self.lease.when_lost(flows.abandon)
        flows.announce(plan.tables)
        try:
            with ending.asked_with(flows.ask_to_stop):
                return run(
                    plan,
                    flows,
                    _Clock(),
                    emit,
                    limit=settings.max_parallel_flows,
                    max_retries=settings.max_flow_retries,
                )
        finally:
            # Nothing of this update may write once the lease is given back.
            flows.close()


class _Clock:
    """The real time."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def now(self) -> datetime:
        """The time of day, UTC."""
        return now()


class _Ending:
    """Who may end an update early: SIGINT, SIGTERM, and whoever holds the event *stop*."""

    def __init__(self, stop: threading.Event | None) -> None:
        self._stop = stop
        self._over = threading.Event()
        # A person stopped it in the middle, as against a service manager at its end.
        self.interrupted = False

    @contextmanager
    def asked_with(self, ask: Callable[[], None]) -> Iterator[None]:
        """Call *ask* when the update is to end while the block runs; a second signal interrupts at once."""
        if self._stop is not None:
            threading.Thread(target=self._watch, args=(self._stop, ask), name="headrace-stop", daemon=True).start()
        before: dict[signal.Signals, Any] = {}

        def handle(number: int, _frame: FrameType | None) -> None:
            self.interrupted = self.interrupted or number == signal.SIGINT
            ask()
            signal.signal(number, before[signal.Signals(number)])

        # Python gives signals to its main thread alone.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._over.set()

    def _watch(self, stop: threading.Event, ask: Callable[[], None]) -> None:
        while not self._over.is_set():
            if stop.wait(_LOOK_FOR_STOP_EVERY_S):
                ask()
                return


def _settings_said(settings: Settings) -> dict[str, object]:
    return {
        "name": settings.name,
        "storage": settings.storage,
        "schema": settings.schema,
        "profile": settings.profile,
        "development": settings.development,
        "continuous": settings.continuous,
        "python": platform.python_version(),
    }


def _warnings(settings: Settings, graph: ResolvedGraph) -> Iterator[Warned]:
    for key, why in settings.notices:
        yield Warned("SETTINGS.WITHOUT_EFFECT", f'setting "{key}" has no effect: {why}')
    for notice in without_effect(graph):
        yield Warned("DATASET.WITHOUT_EFFECT", notice.message, notice.flow, notice.dataset)
    for flow in graph.flows:
        if flow.mode is Mode.COMPLETE:
            message = f'flow "{flow.name}" aggregates a stream without a watermark: each batch replaces the table'
            yield Warned("FLOW.COMPLETE_MODE", message, flow.name, str(flow.target))
        if flow.mode is Mode.VIEW and graph.by_name[flow.target].dataset.expectations:
            message = f'expectations of temporary view "{flow.target}" are applied but not counted'
            yield Warned("EXPECTATION.VIEW_NOT_COUNTED", message, flow.name, str(flow.target))


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
        "reset_checkpoint": list(selection.reset_checkpoint),
        "accept_data_loss": selection.accept_data_loss,
    }


def now() -> datetime:
    """The time of day, UTC."""
    return datetime.now(tz=timezone.utc)


def host_name(environ: Mapping[str, str]) -> str:
    """This machine's name; ``HEADRACE_HOST`` tells machines apart that have the same one, such as containers."""
    return environ.get("HEADRACE_HOST") or socket.gethostname()
