"""The datasets and flows of the code, from the definitions in the event log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.events.types import DatasetDefined, FlowDefined, SinkDefined, Warned
from headrace.metrics.dataset_lag import DefinedFlow


@dataclass(frozen=True)
class DefinedDataset:
    """A dataset of the newest definitions.

    Attributes:
        is_sink: it is a sink.
        freshness_s: by column, how old its newest time may be.
    """

    is_sink: bool = False
    freshness_s: Mapping[str, float] = field(default_factory=dict)


class Definitions:
    """The datasets and flows of the newest update of all flows, and those that later updates define."""

    def __init__(self) -> None:
        self.flows: dict[str, DefinedFlow] = {}
        self.datasets: dict[str, DefinedDataset] = {}
        # By the current update.
        self.new_flows: set[str] = set()
        self._new_datasets: set[str] = set()
        # Dataset and flow, or an empty text: what the storage has that has left the code.
        self.inactive: set[tuple[str, str]] = set()
        self._new_inactive: set[tuple[str, str]] = set()

    def begin(self) -> None:
        """An update begins."""
        self.new_flows, self._new_datasets, self._new_inactive = set(), set(), set()

    def add(self, event: FlowDefined | DatasetDefined | SinkDefined) -> None:
        """Add a definition of the update."""
        match event:
            case FlowDefined(flow=flow):
                self.new_flows.add(flow)
                self.flows[flow] = DefinedFlow(event.dataset, event.inputs, event.mode == "VIEW" or event.once)
            case DatasetDefined(dataset=dataset, freshness=freshness):
                self._new_datasets.add(dataset)
                self.datasets[dataset] = DefinedDataset(freshness_s={one.column: one.within_s for one in freshness})
            case SinkDefined(dataset=dataset):
                self._new_datasets.add(dataset)
                self.datasets[dataset] = DefinedDataset(is_sink=True)

    def add_inactive(self, event: Warned) -> None:
        """Add the warning that the storage has something that the update does not define."""
        self._new_inactive.add((event.dataset or "", event.flow or ""))

    def forget_others(self) -> None:
        """Forget what the update, which is one of all flows, does not define: it has left the code."""
        self.flows = {name: flow for name, flow in self.flows.items() if name in self.new_flows}
        self.datasets = {name: found for name, found in self.datasets.items() if name in self._new_datasets}
        self.inactive = self._new_inactive

    def to_json(self) -> dict[str, Any]:
        """Everything that the next definitions need."""
        return {
            "flows": {name: [flow.dataset, flow.inputs, flow.is_instant] for name, flow in self.flows.items()},
            "defined": sorted(self.new_flows),
            "datasets": {name: [found.is_sink, dict(found.freshness_s)] for name, found in self.datasets.items()},
            "defined_datasets": sorted(self._new_datasets),
            "inactive": sorted(self.inactive),
            "new_inactive": sorted(self._new_inactive),
        }

    @classmethod
    def from_json(cls, given: Any) -> Definitions:
        """The definitions of :meth:`to_json`; raises LookupError, TypeError or ValueError for something else."""
        found = cls()
        found.flows = {
            str(name): DefinedFlow(str(dataset), tuple(map(str, inputs)), bool(is_instant))
            for name, (dataset, inputs, is_instant) in given["flows"].items()
        }
        found.new_flows = set(map(str, given["defined"]))
        # Older versions had no datasets.
        found.datasets = {
            str(name): DefinedDataset(bool(is_sink), {str(column): float(age_s) for column, age_s in freshness.items()})
            for name, (is_sink, freshness) in given.get("datasets", {}).items()
        }
        found._new_datasets = set(map(str, given.get("defined_datasets", ())))
        found.inactive, found._new_inactive = (
            {(str(dataset), str(flow)) for dataset, flow in given.get(key, ())} for key in ("inactive", "new_inactive")
        )
        return found
