"""Gathers the facts of a pipeline, and examines it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from headrace.alerts.store import StoredAlerts, read_alerts
from headrace.assistant.doctor.checklist import Checklist, check_criteria
from headrace.assistant.doctor.diagnose import Diagnosis, diagnose
from headrace.assistant.doctor.facts import Facts, Logged, Machine
from headrace.events.reader import EventReader
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading, reading_carefully
from headrace.project.inspection.diagnosis.checklist_facts import with_checklist_facts
from headrace.project.inspection.diagnosis.logged_facts import logged_facts, with_first_rows
from headrace.project.inspection.diagnosis.machine_facts import machine_of
from headrace.project.inspection.diagnosis.measured_lateness import with_lateness
from headrace.project.inspection.diagnosis.program_facts import program_files
from headrace.project.inspection.diagnosis.stored_flow_facts import lost_flow_facts, stored_flow_facts
from headrace.project.inspection.diagnosis.table_conflicts import table_conflicts
from headrace.project.inspection.pipeline_metrics import pipeline_metrics
from headrace.project.lease_holders import host_name, liveness
from headrace.project.maintenance.maintain import planned_vacuums
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile

_ALERTS, _LOG = "the earlier checks of alerts", "the event log"


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
        with reading_carefully(self._settings.layout) as reading:
            facts = self._facts(reading, reading.read(_ALERTS, self._alerts, StoredAlerts()))
            facts = with_lateness(facts, reading, only_late=True)
        return diagnose(replace(facts, unread=tuple(reading.unread)), name)

    def check(self) -> Checklist:
        """Whether the pipeline meets the success criteria."""
        with reading_carefully(self._settings.layout) as reading:
            alerts = reading.read(_ALERTS, self._alerts, StoredAlerts())
            facts = with_checklist_facts(self._facts(reading, alerts), alerts, reading)
        return check_criteria(replace(facts, unread=tuple(reading.unread)))

    def _facts(self, reading: CarefulReading, alerts: StoredAlerts) -> Facts:
        """What both look at."""
        settings, now = self._settings, self._now()
        samples = reading.read("the metrics", self._samples, Samples())
        logged = self._logged(samples, reading, now)
        flows = stored_flow_facts(settings, reading, now)
        if flows is not None:
            lost = partial(lost_flow_facts, settings, logged, flows, self._flows_with_batches)
            flows = (*flows, *reading.read(_LOG, lambda: tuple(lost()), ()))
        facts = Facts(
            now=now,
            settings=settings,
            settings_text=reading.read("the settings", lambda: settings.file.read_text(encoding="utf-8-sig"), ""),
            samples=samples,
            history=alerts.history,
            flows=flows or (),
            logged=logged,
            maintenance=reading.read("the files of the tables", lambda: planned_vacuums(settings, self._environ), ()),
            programs=program_files(settings, reading),
            conflicts=tuple(table_conflicts(logged, reading)),
            machine=reading.read("the machine", lambda: self._read_machine(settings, logged.started_at), Machine()),
        )
        # Without flows of the log, it could not be read before either.
        reader = EventReader(settings.layout.events)
        return reading.read(_LOG, lambda: with_first_rows(facts, reader), facts) if logged.flows else facts

    def _flows_with_batches(self) -> set[str]:
        return {flow for flow, _ in EventReader(self._settings.layout.events).last_batches()}

    def _samples(self) -> Samples:
        check_lease = partial(liveness, self._settings.layout.lease, host_name(self._environ), self._now)
        return pipeline_metrics(self._settings, self._now, check_lease, tables=True)

    def _alerts(self) -> StoredAlerts:
        return read_alerts(Path(self._settings.layout.monitoring(MonitoringFile.ALERTS)))

    def _logged(self, samples: Samples, reading: CarefulReading, now: float) -> Logged:
        reader = EventReader(self._settings.layout.events)
        logged = reading.read(_LOG, lambda: logged_facts(reader, now), Logged())
        states = [state for (state,) in samples.of(catalogue.UPDATE_STATE)]
        return replace(logged, state=states[0] if states else "")
