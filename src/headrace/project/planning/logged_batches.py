"""The newest batches of flows in the event log, under current or former names."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.events.last_batches import last_batches
from headrace.settings.settings import Settings


class LoggedBatches:
    """Finds the newest epoch and its newest batch in the event log, for a flow and its dataset.

    The log is read once for each plan.

    Args:
        settings: the pipeline's.
        before: datasets to their former names.
    """

    def __init__(self, settings: Settings, before: Mapping[str, str]) -> None:
        self._settings = settings
        self._before = before
        self._newest: dict[tuple[str, str], tuple[int, int]] | None = None

    def invalidate(self) -> None:
        """Read the log again at the next call."""
        self._newest = None

    def __call__(self, flow: str, dataset: str) -> tuple[int, int] | None:
        """The epoch and the batch; None if the log has no batch of the flow."""
        if self._newest is None:
            self._newest = last_batches(self._settings.layout.events)
        known, before = self._newest, self._before
        flows_before = {new: old for old, new in self._settings.renamed_flows.items()}
        flows = {flow, flows_before.get(flow, flow), before.get(flow, flow)}
        names = {(one, of) for one in flows for of in (dataset, before.get(dataset, dataset))}
        return max((known[name] for name in names & known.keys()), default=None)
