"""How far datasets are behind their sources in time: each by its own flows, and along the whole path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DefinedFlow:
    """A flow of the newest definitions.

    Attributes:
        dataset: its target.
        inputs: the datasets that it reads.
        is_instant: it is never behind: the query of a view, or a flow that runs once.
    """

    dataset: str
    inputs: tuple[str, ...]
    is_instant: bool = False


@dataclass(frozen=True)
class DatasetLag:
    """The lag of a dataset in seconds; None if unknown.

    Attributes:
        local: the age of the oldest input that its flows have not read.
        total: the same, plus the greatest lag of the datasets that they read.
    """

    local: float | None
    total: float | None


def dataset_lags(flows: Mapping[str, DefinedFlow], unread_s: Mapping[str, float | None]) -> dict[str, DatasetLag]:
    """The lag of each dataset that has flows.

    Args:
        flows: by name.
        unread_s: by flow, the age of the oldest input that it has not read in seconds; 0 if it has read all, so that a
            dataset without new input is not behind; None or absent if unknown.
    """
    by_dataset: dict[str, list[str]] = {}
    for name, flow in flows.items():
        by_dataset.setdefault(flow.dataset, []).append(name)
    found: dict[str, DatasetLag] = {}

    def lag_of(dataset: str) -> DatasetLag:
        if dataset in found:
            return found[dataset]
        # A cycle, which the definitions cannot have, would end here.
        found[dataset] = DatasetLag(None, None)
        locals_s = [0.0 if flows[name].is_instant else unread_s.get(name) for name in by_dataset.get(dataset, ())]
        inputs = {given for name in by_dataset.get(dataset, ()) for given in flows[name].inputs}
        # A flow may read its own target.
        upstream = [lag_of(given).total for given in sorted(inputs - {dataset})]
        local = greatest_if_known(locals_s) if locals_s else None
        above = greatest_if_known([0.0, *upstream])
        found[dataset] = DatasetLag(local, None if local is None or above is None else local + above)
        return found[dataset]

    return {dataset: lag_of(dataset) for dataset in by_dataset}


def greatest_if_known(values: list[float | None]) -> float | None:
    """The greatest of the values; None if one of them is unknown."""
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None
