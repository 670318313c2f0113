"""How late rows arrived in the tables that flows with late rows read, without a JVM."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from headrace.assistant.doctor.checks import checks
from headrace.assistant.doctor.facts import Facts
from headrace.assistant.doctor.programs import is_of, watermarks
from headrace.errors import PipelineError
from headrace.metrics import catalogue
from headrace.model.lateness import DEFAULT_DROPPED_SHARE
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading
from headrace.project.inspection.stored_tables import lateness

_COMMITS = 1000


def with_lateness(facts: Facts, reading: CarefulReading, *, only_late: bool) -> Facts:
    """The facts with the delay that keeps nearly all rows, by table and event time column, for the watermarks of flows.

    Args:
        facts: what was read so far.
        reading: reads with care.
        only_late: only for watermarks that have dropped rows.
    """
    late = {past.event.flow for past in facts.logged.warnings if past.event.code in checks()["late-dropped"].warnings}
    changes = facts.samples.of(catalogue.STATE_CHANGES)
    late |= {flow for (flow, _, change), rows in changes.items() if change == "late" and rows}
    found: dict[tuple[str, str], tuple[float | None, str]] = {}
    for watermark in watermarks(facts.programs):
        for name, flow in facts.logged.flows.items():
            if (only_late and name not in late) or not is_of(flow.dataset, watermark.dataset) or len(flow.inputs) != 1:
                continue
            key = (flow.inputs[0], watermark.column)
            if key not in found:
                unread = (None, f'table "{key[0]}" cannot be read')
                found[key] = reading.read(f'how late rows of "{key[0]}" arrive', partial(_delay, facts, *key), unread)
    return replace(
        facts,
        lateness_s={key: delay_s for key, (delay_s, _) in found.items()},
        not_measured={key: reason for key, (_, reason) in found.items() if reason},
    )


def _delay(facts: Facts, table: str, column: str) -> tuple[float | None, str]:
    """The delay, or why it was not measured."""
    settings = facts.settings
    try:
        measured = lateness(settings.layout, settings.naming, table, column, _COMMITS, DEFAULT_DROPPED_SHARE, facts.now)
    except PipelineError as error:
        if error.code == "LATENESS.NO_TIME":
            return None, f'table "{table}" has no such column, because the query computes it'
        return None, f'"{table}" is no table of the storage, such as a view'
    if measured.suggested_s is None:
        return None, f'all rows of "{table}" came in one commit, so there are no earlier ones to compare with'
    return measured.suggested_s, ""
