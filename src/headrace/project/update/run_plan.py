"""Runs the flows of a plan, one board after another, with the context that they share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headrace.cdc.table_lock import TableLock
from headrace.events.reader import EventReader
from headrace.events.types import Event
from headrace.model.samples import SAMPLES_KEY
from headrace.plan.steps import Plan
from headrace.project.lease import Lease
from headrace.project.resolution.resolve_request import Resolved
from headrace.project.update.early_stop import StopSignals
from headrace.project.update.known_counts import known_counts
from headrace.runtime.board import Board
from headrace.runtime.failpoints import Failpoints
from headrace.runtime.loop import run as run_flows
from headrace.settings.settings import Settings
from headrace.spark.execution.flow_threads import ThreadedFlows
from headrace.spark.jvm.executor_times import ExecutorTimes
from headrace.spark.update.context import FlowDefaults, Reporting, UpdateContext
from headrace.spark.update.guard import Guard
from headrace.storage.change_detection import StoredState
from headrace.storage.view_definitions import apply_view_step


@dataclass(frozen=True)
class PlanRun:
    """What the plans of one update run with."""

    settings: Settings
    state: StoredState
    lease: Lease
    failpoints: Failpoints
    redact: Callable[[str], str]
    update_id: str
    emit: Callable[[Event], None]
    stop_signals: StopSignals
    code_digest: str

    def run(self, plan: Plan, resolved: Resolved, before: Board | None = None) -> Board:
        """Run a plan until no flow is left to run, or until a flow has to be resolved again.

        Args:
            plan: of the graph of *resolved*.
            resolved: the project.
            before: the board of the plan before, where flows had to be resolved again.

        Returns:
            The board, with the state of each flow.
        """
        settings = self.settings
        for step in plan.views:
            self.lease.check()
            apply_view_step(step, settings.layout, settings.naming)
        executor_times = ExecutorTimes(resolved.catalog.session)
        context = UpdateContext(
            update_id=self.update_id,
            pipeline_id=settings.id,
            graph=resolved.graph,
            catalog=resolved.catalog,
            state=self.state,
            layout=settings.layout,
            naming=settings.naming,
            root=settings.root,
            reporting=Reporting(
                emit=self.emit,
                known_counts=known_counts(EventReader(settings.layout.events), self.state, resolved.graph),
                now=time.time,
                redact=self.redact,
                traces=Path(settings.layout.logs) / f"{self.update_id}.log",
                executor_times=executor_times,
            ),
            guard=Guard(self.failpoints, self.lease.check, self.lease.number),
            defaults=FlowDefaults(
                retention=settings.retention,
                on_tie=settings.on_tie,
                dead_letter_policy=settings.on_failing_rows,
                samples=resolved.catalog.session.conf.get(SAMPLES_KEY, None),
            ),
            table_locks={dataset.name: TableLock() for dataset in resolved.graph.datasets},
            stop_timeout_s=settings.stop_timeout_s,
            max_parallel_flows=settings.max_parallel_flows,
            code_digest=self.code_digest,
        )
        flows = ThreadedFlows(context)
        self.lease.when_lost(flows.abandon)
        flows.announce(plan.tables)
        with self.stop_signals.on_stop(flows.request_stop, flows.stop_now):
            try:
                return run_flows(
                    plan,
                    flows,
                    _Clock(),
                    self.emit,
                    limit=settings.max_parallel_flows,
                    max_retries=settings.flow_retries(continuous=plan.continuous),
                    before=before,
                )
            finally:
                # Nothing may write for this update after the lease is released.
                flows.close()
                executor_times.close()


class _Clock:
    """The real clock."""

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def now(self) -> datetime:
        """The time of day, UTC."""
        return datetime.now(tz=UTC)
