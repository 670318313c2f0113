"""The user's own metrics of batches: totals, and the newest values as long as they are recorded."""

from __future__ import annotations

from typing import Any

from headrace.events.types import BatchDone
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples


class CustomValues:
    """Adds own metrics to samples, and removes values that an update with rows has not recorded."""

    def __init__(self) -> None:
        # By flow: the newest update in which it read rows, and the metrics that it recorded there.
        self._recorded: dict[str, tuple[str, set[str]]] = {}

    def add(self, samples: Samples, event: BatchDone, update_id: str) -> None:
        """Add the metrics of a new batch."""
        flow, dataset, counts = event.flow, event.dataset, event.counts
        recorded_by, names = self._recorded.get(flow, ("", set()))
        if counts.rows_read and recorded_by != update_id:
            if recorded_by:
                self._drop_unrecorded(samples, flow)
            names = set()
            self._recorded[flow] = (update_id, names)
        names |= {metric.name for metric in counts.metrics}
        for metric in counts.metrics:
            if metric.is_total:
                samples.add(catalogue.CUSTOM_TOTAL, metric.value, flow, dataset, metric.name)
            else:
                samples.set(catalogue.CUSTOM_VALUE, metric.value, flow, dataset, metric.name)

    def end_update(self, samples: Samples, update_id: str) -> None:
        """Remove the values that an update should have recorded, at its end."""
        for flow, (recorded_by, _) in self._recorded.items():
            if recorded_by == update_id:
                self._drop_unrecorded(samples, flow)

    def to_json(self) -> dict[str, Any]:
        """Everything that the next batches need."""
        return {flow: [update_id, sorted(names)] for flow, (update_id, names) in self._recorded.items()}

    @classmethod
    def from_json(cls, given: Any) -> CustomValues:
        """The values of :meth:`to_json`; raises TypeError, AttributeError or ValueError for something else."""
        found = cls()
        found._recorded = {
            str(flow): (str(update_id), set(map(str, names))) for flow, (update_id, names) in given.items()
        }
        return found

    def _drop_unrecorded(self, samples: Samples, flow: str) -> None:
        _, names = self._recorded[flow]
        samples.drop(catalogue.CUSTOM_VALUE, lambda labels: labels["flow"] == flow and labels["metric"] not in names)
