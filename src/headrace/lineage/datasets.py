"""The datasets of an update as other systems name them: by their place; views are seen through."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.events.types import DatasetDefined, FlowDefined, SinkDefined
from headrace.model.column_lineage import ColumnLineage, InputDataset, seen_through
from headrace.model.dataset_id import DatasetId, of_place

_VIEW = "VIEW"
# The option of a sink that passes its rows on, in its definition.
_MEMBERS = "targets"
# Spark's descriptions of sources.
_SOURCE = re.compile(r"(?:DeltaSource|FileStreamSource)\[(?P<place>.*)\]", re.DOTALL)
_TOPICS = re.compile(r"KafkaV2\[Subscribe\[(?P<topics>.*)\]\]", re.DOTALL)


class Datasets:
    """What is defined in an update; *namespace* is that of datasets without a place of their own."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._datasets: dict[str, DatasetDefined | SinkDefined] = {}
        self._flows: dict[str, FlowDefined] = {}
        # The queries of views, by the name of the view.
        self._views: dict[str, list[FlowDefined]] = {}
        self._ids: dict[InputDataset, DatasetId] = {}
        self._names: dict[DatasetId, list[str]] = {}
        # Of flows that were asked for, until something else is defined.
        self._inputs: dict[str, tuple[DatasetId, ...]] = {}
        self._columns: dict[str, ColumnLineage | None] = {}

    def add(self, event: DatasetDefined | SinkDefined | FlowDefined) -> None:
        """Take note of a definition."""
        self._inputs, self._columns = {}, {}
        if isinstance(event, FlowDefined):
            self._flows[event.flow] = event
            if event.mode == _VIEW:
                self._views.setdefault(event.dataset, []).append(event)
            return
        self._datasets[event.dataset] = event
        if isinstance(event, DatasetDefined) and event.path is not None:
            place = self._ids[event.dataset] = of_place(event.path)
            self._names.setdefault(place, []).append(event.dataset)

    def flow(self, name: str) -> FlowDefined | None:
        """The definition of a flow; None without one."""
        return self._flows.get(name)

    def table(self, name: str) -> DatasetDefined | None:
        """The definition of a dataset that stores its rows; None for any other."""
        defined = self._datasets.get(name)
        return defined if isinstance(defined, DatasetDefined) and name in self._ids else None

    @property
    def ids(self) -> Mapping[InputDataset, DatasetId]:
        """The places of the tables of the pipeline."""
        return self._ids

    def names_of(self, dataset: DatasetId) -> tuple[str, ...]:
        """The pipeline's own names of a place; none for one outside of it."""
        return tuple(self._names.get(dataset, ()))

    def inputs(self, flow: str) -> tuple[DatasetId, ...]:
        """What a flow reads, each once."""
        if flow not in self._inputs:
            defined = self._flows.get(flow)
            found = () if defined is None else self._inputs_of(defined, frozenset())
            self._inputs[flow] = tuple(dict.fromkeys(found))
        return self._inputs[flow]

    def outputs(self, dataset: str) -> tuple[DatasetId, ...]:
        """What a flow into a dataset writes to."""
        defined = self._datasets.get(dataset)
        if not isinstance(defined, SinkDefined):
            return (self._id(dataset),)
        members = [name.strip() for name in str(defined.options.get(_MEMBERS, "")).split(",") if name.strip()]
        if members:
            found = (one for member in members if member != dataset for one in self.outputs(member))
            return tuple(dict.fromkeys(found))
        return defined.datasets or (self._id(dataset),)

    def columns(self, flow: str) -> ColumnLineage | None:
        """Where the columns of a flow's rows come from; None if unknown."""
        if flow not in self._columns:
            defined = self._flows.get(flow)
            views = {name: one.columns for name, (one, *_) in self._views.items() if one.columns is not None}
            known = None if defined is None else defined.columns
            self._columns[flow] = None if known is None else seen_through(known, views)
        return self._columns[flow]

    def rows_of(self, flow: str, dataset: DatasetId, rows: Mapping[str, int]) -> int | None:
        """The rows that a flow has read from a dataset; None if unknown.

        Args:
            flow: the flow.
            dataset: one of its inputs.
            rows: by Spark's description of each source.
        """
        if not rows:
            return None
        if len(self.inputs(flow)) == 1:
            return sum(rows.values())
        found = [count for source, count in rows.items() if _is_of(source, dataset)]
        return sum(found) if found else None

    def _inputs_of(self, flow: FlowDefined, inside: frozenset[str]) -> Iterator[DatasetId]:
        if flow.flow in inside:
            return
        for name in flow.inputs:
            views = self._views.get(name)
            if views is None:
                yield self._id(name)
            for view in views or ():
                yield from self._inputs_of(view, inside | {flow.flow})
        for given in flow.external_inputs:
            yield from given.datasets or (DatasetId(self._namespace, given.name),)

    def _id(self, name: str) -> DatasetId:
        return self._ids.get(name) or DatasetId(self._namespace, name)


def _is_of(source: str, dataset: DatasetId) -> bool:
    place, topics = _SOURCE.fullmatch(source), _TOPICS.fullmatch(source)
    if place is not None:
        return of_place(place["place"]) == dataset
    return topics is not None and topics["topics"] == dataset.name
