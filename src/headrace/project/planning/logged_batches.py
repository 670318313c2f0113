"""The newest batches of flows in the event log, under current or former names."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.events.last_batches import last_batches
from headrace.events.reader import EventReader
from headrace.settings.settings import Settings
from headrace.stores.uris import is_store_uri


class LoggedBatches:
    """Finds the newest epoch and its newest batch in the event log, for a flow and its dataset.

    An update plans twice: each plan looks for a newer version of the log, and reads it if there is one.

    Args:
        settings: the pipeline's.
        before: datasets to their former names.
    """

    def __init__(self, settings: Settings, before: Mapping[str, str]) -> None:
        self._settings = settings
        self._before = before
        self._newest: dict[tuple[str, str], tuple[int, int]] = {}
        # The log and its version that these are from.
        self._position: tuple[str, int] | None = None
        self._is_current = False

    def invalidate(self) -> None:
        """Look for a newer version of the log at the next call."""
        self._is_current = False

    def __call__(self, flow: str, dataset: str) -> tuple[int, int] | None:
        """The epoch and the batch; None if the log has no batch of the flow."""
        if not self._is_current:
            self._read()
        known, before = self._newest, self._before
        flows_before = {new: old for old, new in self._settings.renamed_flows.items()}
        flows = {flow, flows_before.get(flow, flow), before.get(flow, flow)}
        names = {(one, of) for one in flows for of in (dataset, before.get(dataset, dataset))}
        return max((known[name] for name in names & known.keys()), default=None)

    def _read(self) -> None:
        log = self._settings.layout.events
        if is_store_uri(log):
            # The snapshot of the bucket has read only what is new.
            self._newest = last_batches(log)
        else:
            # A reader that was kept would not see that the log was replaced by an older copy.
            position = EventReader(log).position
            if position is None or position != self._position:
                self._newest, self._position = {} if position is None else last_batches(log), position
        self._is_current = True
