"""Runs updates of a pipeline, unless its settings require an approval for what they change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.events.types import Event
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import Selection
from headrace.model.outcome import Outcome, UpdateCause
from headrace.plan.steps import Plan
from headrace.project.changes.gates import PolicyGate
from headrace.project.planning.plan_update import Planning
from headrace.project.resolution.resolver import Resolver
from headrace.project.savepoints.automatic import AutomaticSavepoints
from headrace.project.savepoints.brokers import ask_brokers
from headrace.project.savepoints.savepoints import PipelineSavepoints
from headrace.project.savepoints.topics import BrokerAnswers, SavedTopics
from headrace.project.staging.swaps import StageSwaps
from headrace.project.test_harness import Harness
from headrace.project.update.alert_monitor import ReadMetrics, UpdateAlerts
from headrace.project.update.update import UpdateGate, UpdatePublication
from headrace.project.update.update_start import UpdateStart
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.storage.deployed_flows import StoredFlows


@dataclass(frozen=True)
class PipelineUpdates:
    """Runs updates.

    Attributes:
        settings: the pipeline's.
        environ: the process environment.
        harness: the replacements of a test.
        secrets: looked up, and removed from texts.
        planning: plans updates.
        resolver: resolves the project.
        alerts: the alerts that an update checks.
        metrics: reads the metrics that alerts are about.
        savepoints: finishes a restore that a crash has interrupted, and makes savepoints that are due.
        swaps: finishes a swap that a crash has interrupted.
        publication: of its tables in metastores.
    """

    settings: Settings
    environ: Mapping[str, str]
    harness: Harness
    secrets: Secrets
    planning: Planning
    resolver: Resolver
    alerts: Callable[[], UpdateAlerts]
    metrics: ReadMetrics
    savepoints: PipelineSavepoints
    swaps: StageSwaps
    publication: UpdatePublication

    def run(
        self,
        selection: Selection,
        planned: Callable[[ResolvedGraph, Selection], Plan],
        on_event: Callable[[Event], None] | None,
        stop: threading.Event | None = None,
        *,
        skip_unavailable: bool = True,
        cause: UpdateCause = UpdateCause.USER_ACTION,
        request_id: str | None = None,
        gate: UpdateGate | None = None,
    ) -> Outcome:
        """Run an update to its end.

        Args:
            selection: what to update.
            planned: plans an update of a resolved graph; called again after a schema evolved.
            on_event: receives every event as it happens.
            stop: stops the update early when set.
            skip_unavailable: leave out flows whose sources are unavailable, instead of stopping the update.
            cause: why it runs, for the event log.
            request_id: of the request that it answers; if an update has answered it, its outcome is returned.
            gate: decides whether the plan may run (default: by the settings).

        Raises:
            Problems: all problems of the project; nothing was written.
            PipelineError: PLAN.* of the gate: nothing was written; LEASE.HELD.
        """
        start = UpdateStart(
            self.settings,
            self.environ,
            self.harness,
            self.secrets,
            self.planning,
            self.resolver,
            skip_unavailable,
            self.alerts(),
            self.metrics,
            cause,
            request_id,
            gate or PolicyGate(self.settings.approval, self.flows, selection),
            self.publication,
        )
        self.savepoints.finish()
        self.swaps.finish()
        self.automatic.before(selection)
        outcome = start.run(selection, planned, on_event, stop)
        self.automatic.after(outcome)
        return outcome

    def ask_brokers(self, topics: Sequence[SavedTopics]) -> BrokerAnswers:
        """What the brokers of flows no longer have, of what flows read again after a restore."""
        return ask_brokers(self.resolver, self.planning, topics)

    @property
    def automatic(self) -> AutomaticSavepoints:
        """Makes savepoints before and after updates."""
        return AutomaticSavepoints.of(self.settings, self.savepoints, self.secrets.redact)

    @property
    def flows(self) -> StoredFlows:
        """What the flows of the pipeline have done."""
        planning = self.planning
        return StoredFlows(planning.layout, self.settings.naming, planning.state, self.harness.clock)
