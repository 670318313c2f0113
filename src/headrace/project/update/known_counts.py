"""The counts of batches that the event log has already."""

from __future__ import annotations

from collections.abc import Callable

from headrace.events.reader import EventReader, batch_counts
from headrace.graph.resolved import ResolvedGraph
from headrace.model.outcome import FlowCounts
from headrace.storage.change_detection import StoredState


def known_counts(
    events: EventReader, state: StoredState, graph: ResolvedGraph
) -> Callable[[str, int, int], FlowCounts | None]:
    """A function that finds the counts of a batch in the event log, also under former names of its flow."""

    def known(flow: str, epoch: int, batch_id: int) -> FlowCounts | None:
        formerly = state.progress_of(graph.by_flow[flow]).former_names
        names = [flow, *(name for name, last in formerly.items() if epoch <= last)]
        found = (batch_counts(events, name, epoch, batch_id) for name in names)
        return next((counts for counts in found if counts is not None), None)

    return known
