"""The pages of a pipeline: where each is, what it is called, and the letter that leads to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A page of a pipeline, as the navigation has it.

    Attributes:
        name: of the section, by which a page says where it is.
        label: what is shown.
        path: after that of the pipeline.
        key: the letter after ``g`` that opens it.
        open_things: what its number counts, as one and as several.
    """

    name: str
    label: str
    path: str
    key: str
    open_things: tuple[str, str] = ("", "")


SECTIONS = (
    Section("overview", "Overview", "", "o"),
    Section("graph", "Graph", "/graph", "g"),
    Section("updates", "Updates", "/updates", "u"),
    Section("alerts", "Alerts", "/alerts", "a", ("open alert", "open alerts")),
    Section("quarantine", "Quarantine", "/quarantine", "q", ("dataset with rows", "datasets with rows")),
    Section("changes", "Changes", "/changes", "c"),
    Section("schedules", "Schedules", "/schedules", "t"),
    Section("sql", "SQL", "/sql", "l"),
    Section("savepoints", "Savepoints", "/savepoints", "s"),
    Section("maintenance", "Maintenance", "/maintenance", "m"),
    Section("doctor", "Doctor", "/doctor", "d"),
)
