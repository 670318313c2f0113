"""Checks the alerts of a pipeline at times that a test chooses."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from headrace.alerts.alert import AlertState
from headrace.alerts.messages import Pipeline
from headrace.project.inspection.pipeline_alerts import Messaging, PipelineAlerts
from headrace.project.inspection.pipeline_metrics import pipeline_metrics
from headrace.project.lease_holders import host_name, liveness
from headrace.settings.storage import MonitoringFile

EVERY_S = 300.0


class AlertWatch:
    """Somebody who checks alerts each five minutes, by a clock that a test moves.

    What the pipeline itself does has the time of day, so a moved clock is as if nothing had happened meanwhile.
    """

    def __init__(self, settings):
        layout = settings.layout
        self.settings, self.later_s = settings, 0.0
        stored, outbox = (Path(layout.monitoring(one)) for one in (MonitoringFile.ALERTS, MonitoringFile.OUTBOX))
        messaging = Messaging(settings.alerts, Pipeline(settings.name, settings.id, ""), _no_channel, str)
        self._alerts = PipelineAlerts(stored, outbox, self.now, messaging)
        self._check_lease = partial(liveness, layout.lease, host_name({}), time.time)

    def now(self):
        """The moved clock."""
        return time.time() + self.later_s

    def metrics(self):
        """The metrics at that time."""
        return pipeline_metrics(self.settings, self.now, self._check_lease, tables=True)

    def open_now(self):
        """The names of the rules that are open after one check."""
        alerts = self._alerts.check(self.metrics())
        return {alert.rule_id for alert in alerts if alert.state is AlertState.OPEN}

    def open_after(self, minutes):
        """The same after checks each five minutes."""
        until = self.later_s + 60 * minutes
        found = self.open_now()
        while self.later_s < until:
            self.later_s = min(self.later_s + EVERY_S, until)
            found = self.open_now()
        return found


def _no_channel(channel, message):
    raise AssertionError(f"{channel} has nothing to get: {message}")
