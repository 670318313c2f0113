"""Runs updates and records their events."""

from __future__ import annotations


def heard(pipeline, **options):
    """The result of an update, and its events in their order."""
    events = []
    return pipeline.run(on_event=events.append, **options), events
