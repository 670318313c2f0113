"""How many things are open on the other pages of a pipeline, for the navigation."""

from __future__ import annotations

from headrace.metrics import catalogue
from headrace.project.inspection.pipeline_view import PipelineView


def open_counts(view: PipelineView) -> dict[str, int]:
    """By the name of a section, how many things are open there; nothing without one."""
    found = {
        "alerts": sum(alert.needs_attention(view.as_of) for alert in view.alerts),
        "quarantine": sum(rows > 0 for rows in view.samples.of(catalogue.QUARANTINED).values()),
    }
    return {name: number for name, number in found.items() if number}
