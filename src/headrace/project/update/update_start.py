"""Starts an update: resolves and plans the project, takes the lease, and runs the plan."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.errors import PipelineError, Problems
from headrace.events.types import Event
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selection
from headrace.model.outcome import Outcome, UpdateCause
from headrace.plan.steps import Plan
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name, liveness, user_name
from headrace.project.planning.plan_update import Planning
from headrace.project.resolution.resolve_request import Resolved
from headrace.project.resolution.resolver import Resolver
from headrace.project.storage_folder import clear_refusal, create_storage, record_refusal
from headrace.project.test_harness import Harness
from headrace.project.update.alert_monitor import AlertMonitor, ReadMetrics, UpdateAlerts
from headrace.project.update.cluster_check import check_cluster, is_cluster, refuse_held_lease
from headrace.project.update.early_stop import StopSignals
from headrace.project.update.update import Update, UpdateGate, UpdatePublication
from headrace.runtime.board import Board, remaining_selection
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings


@dataclass(frozen=True)
class UpdateStart:
    """What an update starts from."""

    settings: Settings
    environ: Mapping[str, str]
    harness: Harness
    secrets: Secrets
    planning: Planning
    resolver: Resolver
    # Flows whose sources are unavailable are left out, instead of stopping the update.
    skip_unavailable: bool
    alerts: UpdateAlerts
    metrics: ReadMetrics
    cause: UpdateCause
    request_id: str | None
    gate: UpdateGate
    publication: UpdatePublication

    def run(
        self,
        selection: Selection,
        planned: Callable[[ResolvedGraph, Selection], Plan],
        on_event: Callable[[Event], None] | None,
        stop: threading.Event | None,
    ) -> Outcome:
        """Run an update to its end.

        Args:
            selection: what to update.
            planned: plans an update of a resolved graph; called again after a schema evolved.
            on_event: receives every event as it happens.
            stop: stops the update early when set.

        Raises:
            Problems: all problems of the project; nothing was written.
            PipelineError: LEASE.HELD if another update of the pipeline is running; PLAN.* of the gate.
        """
        monitor = AlertMonitor(self.alerts, self.metrics, self.settings.alerts)
        host, file = host_name(self.environ), self.settings.layout.lease
        # Find all problems before writing anything, including the lease.
        with self._refusals_recorded(monitor, host):
            with self.planning.reading():
                found = self.planning.resolve(self.resolver.resolve, selection, skip_unavailable=self.skip_unavailable)
                # What an update does changes what is modified, so selectors are asked once.
                resolved, selection = found.project, found.selection
                plan = planned(resolved.graph, selection)
                self.gate.check(plan)
                self.publication.check(plan)
            create_storage(self.settings)
        session = resolved.catalog.session
        if is_cluster(session):
            # The check may wait for minutes, also for executors that the other update occupies.
            refuse_held_lease(file, host, time.time)
            with self._refusals_recorded(monitor, host):
                check_cluster(session, self.settings)
        update_id = str(uuid.uuid4())
        remaining = selection

        def replan(board: Board) -> tuple[Resolved, Plan]:
            nonlocal remaining
            remaining = remaining_selection(remaining, board)
            with self.planning.reading():
                request = self.planning.tables.update_request(remaining, skip_unavailable=self.skip_unavailable)
                now = self.resolver.resolve(request)
                return now, planned(now.graph, remaining)

        lease = Lease(file, host, time.time, timing=self.harness.lease_timing, update_id=update_id)
        with StopSignals(stop) as stop_signals, lease:
            update = Update(
                update_id=update_id,
                settings=self.settings,
                secrets=self.secrets,
                environ=self.environ,
                resolved=resolved,
                state=self.planning.state,
                lease=lease,
                failpoints=self.harness.failpoints,
                clock=self.harness.clock,
                cause=self.cause,
                user=user_name(self.environ),
                request_id=self.request_id,
                apply_renames=lambda plan: self.planning.apply_renames(plan, self.harness.failpoints),
                replan=replan,
                monitor=monitor,
                gate=self.gate,
                publication=self.publication,
            )
            # Under the lease: whoever started it twice gets one update.
            earlier = update.earlier_outcome()
            if earlier is not None:
                return earlier
            self.planning.finish_renames()
            plan = planned(resolved.graph, selection)
            with self._refusals_recorded(monitor, host), self.planning.reading():
                self.gate.check(plan)
                self.publication.claim(plan)
            clear_refusal(self.settings)
            return update.run(plan, selection, on_event, stop_signals)

    @contextmanager
    def _refusals_recorded(self, monitor: AlertMonitor, host: str) -> Iterator[None]:
        """Record why the update does not start. Beside a running one, an attempt changes nothing."""
        try:
            yield
        except (PipelineError, Problems) as error:
            if not liveness(self.settings.layout.lease, host, time.time).is_held:
                record_refusal(self.settings, error)
            monitor.report_not_started(error)
            raise
