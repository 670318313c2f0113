"""Gathers the facts of a pipeline, and examines it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from headrace.alerts.history import History
from headrace.alerts.store import read_alerts
from headrace.assistant.doctor.diagnose import Diagnosis, diagnose
from headrace.assistant.doctor.facts import Facts, Machine
from headrace.events.reader import EventReader
from headrace.metrics.samples import Samples
from headrace.model.maintenance import MaintenanceRequest, Task
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading
from headrace.project.inspection.diagnosis.machine_facts import machine_of
from headrace.project.inspection.diagnosis.stored_flow_facts import stored_flow_facts
from headrace.project.inspection.pipeline_metrics import pipeline_metrics
from headrace.project.lease_holders import host_name, liveness
from headrace.project.maintenance.maintain import maintenance_of
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.health import health_of_flows

_VACUUM = MaintenanceRequest(tasks=(Task.VACUUM,), dry_run=True, short_retention=True)


class PipelineDoctor:
    """Examines one pipeline, also while an update of it runs.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        now: the time in seconds since 1970.
        read_machine: reads the machine; its second argument is when the latest update began, in seconds since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        now: Callable[[], float] = time.time,
        read_machine: Callable[[Settings, float], Machine] = machine_of,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._now = now
        self._read_machine = read_machine

    def diagnose(self, name: str | None = None) -> Diagnosis:
        """What is wrong with the pipeline, or with a flow or dataset of it.

        Raises:
            PipelineError: DOCTOR.UNKNOWN.
        """
        return diagnose(self.facts(), name)

    def facts(self) -> Facts:
        """All that the doctor looks at."""
        settings, reading, now = self._settings, CarefulReading(), self._now()
        layout = settings.layout
        check_lease = partial(liveness, Path(layout.lease), host_name(self._environ), self._now)
        logged = reading.read("the event log", EventReader(layout.events).last_batches, {})
        health = reading.read(
            "the checkpoints", lambda: health_of_flows(layout, settings.naming, settings.id, logged), ()
        )
        samples = reading.read(
            "the metrics", lambda: pipeline_metrics(settings, self._now, check_lease, tables=True), Samples()
        )
        alerts = Path(layout.monitoring(MonitoringFile.ALERTS))
        history = reading.read("the earlier checks of alerts", lambda: read_alerts(alerts).history, History())
        maintenance = reading.read(
            "the files of the tables", lambda: maintenance_of(settings, self._environ).maintain(_VACUUM), ()
        )
        return Facts(
            now=now,
            settings=settings,
            settings_text=reading.read("the settings", lambda: settings.file.read_text(encoding="utf-8-sig"), ""),
            samples=samples,
            history=history,
            has_storage=Path(layout.root).is_dir(),
            flows=stored_flow_facts(settings, health, reading, now),
            maintenance=maintenance,
            machine=reading.read("the machine", lambda: self._read_machine(settings, 0.0), Machine()),
            unread=tuple(reading.unread),
        )
