"""The events of an update as a list with a filter, as facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.events.levels import Level
from headrace.events.reader import EventReader
from headrace.events.update_events import EventChoice, EventCounts, ListedEvent, event_counts, newest_events
from headrace.metrics.dataset_health import Health
from headrace.serve.formats import iso
from headrace.serve.pages.paging import page_number, paging_of

_EACH_PART = 50
_LONGEST_MESSAGE = 600
# From the worst on; numbers come last, because they are frequent.
_LEVELS = (Level.ERROR, Level.WARN, Level.INFO, Level.METRICS)
_MARKS = {Level.ERROR.value: Health.BAD.value, Level.WARN.value: Health.WARN.value}


@dataclass(frozen=True)
class AskedEvents:
    """Which events of an update a page shows.

    Attributes:
        least: the least level of the events.
        flow: only of this flow; empty for all.
        number: the part of the list.
    """

    least: Level = Level.INFO
    flow: str = ""
    number: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> AskedEvents:
        """What a query asks for; what it does not say, or says wrongly, is as without it."""
        level = query.get("level", "")
        least = Level(level) if level in {one.value for one in _LEVELS} else Level.INFO
        return cls(least, query.get("flow", ""), page_number(query.get("page", "")))

    @property
    def choice(self) -> EventChoice:
        """Which events that are."""
        return EventChoice(frozenset(_LEVELS[: _LEVELS.index(self.least) + 1]), self.flow)


def update_events(reader: EventReader, update_id: str, asked: AskedEvents) -> dict[str, Any]:
    """The events of an update that are asked for, the newest first, and how many there are by level.

    Args:
        reader: of the event log.
        update_id: the update.
        asked: which events; a flow that has none is as good as none.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """

    def read() -> dict[str, Any]:
        counts = event_counts(reader, update_id)
        total = asked.choice.total(counts)
        first, paging = paging_of(total, asked.number, _EACH_PART)
        found = newest_events(reader, update_id, asked.choice, first, _EACH_PART) if total else ()
        return {
            "level": asked.least.value,
            "flow": asked.flow or None,
            "levels": _levels(counts, asked.flow),
            "flows": sorted({flow for _, flow in counts if flow}),
            "all": sum(counts.values()),
            "paging": paging,
            "rows": [_row(one) for one in found],
        }

    # The number and the events of one version of the log.
    return reader.read_once("events of an update", (update_id, asked), read)


def _levels(counts: EventCounts, flow: str) -> list[dict[str, Any]]:
    """By each least level, how many events there are."""
    return [{"level": one.value, "count": AskedEvents(one, flow).choice.total(counts)} for one in _LEVELS]


def _row(event: ListedEvent) -> dict[str, Any]:
    text = event.message
    return {
        "at": iso(event.at),
        "level": event.level,
        "mark": _MARKS.get(event.level),
        "type": event.event_type,
        "flow": event.flow,
        "dataset": event.dataset,
        "message": text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE].rstrip()} …",
        "code": event.code,
    }
