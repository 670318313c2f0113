"""What only the success checklist looks at: crash tests, tested channels, documents, latencies, lateness."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.alerts.store import StoredAlerts
from headrace.assistant.doctor.facts import Facts
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading
from headrace.project.inspection.diagnosis.crash_tests import crash_tests_of
from headrace.project.inspection.diagnosis.measured_lateness import with_lateness
from headrace.project.inspection.diagnosis.requirements_latency import REQUIREMENTS, latencies_s
from headrace.settings.settings import Settings

_DOCUMENTS = ("design.md", "runbook.md")


def with_checklist_facts(facts: Facts, alerts: StoredAlerts, reading: CarefulReading) -> Facts:
    """The facts with what only the checklist needs.

    Args:
        facts: those of the doctor.
        alerts: the stored alerts.
        reading: reads with care.
    """
    settings = facts.settings
    facts = with_lateness(facts, reading, only_late=False)
    return replace(
        facts,
        channels_reached=_reached(settings, alerts),
        crash_tests=reading.read("the results of crash tests", lambda: crash_tests_of(settings), ()),
        latencies_s=reading.read(REQUIREMENTS, lambda: latencies_s(settings.root), {}),
        documents=reading.read("the documents of the project", lambda: _documents(settings.root), {}),
    )


def _reached(settings: Settings, stored: StoredAlerts) -> dict[str, float]:
    """The channels of today's settings that have accepted a test message, and when."""
    digests = {channel.name: channel.digest for channel in settings.alerts.channels}
    return {one.channel: one.at for one in stored.reached if digests.get(one.channel) == one.digest}


def _documents(folder: Path) -> dict[str, str]:
    files = {name: folder / name for name in _DOCUMENTS}
    return {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.is_file()}
