"""The JSON of the lineage of columns in events: each input and each of its columns is written once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.events.levels import Json
from headrace.model.column_lineage import ColumnLineage, ColumnUse, InputDataset, OutputColumn, Use
from headrace.model.dataset_id import DatasetId


def lineage_body(lineage: ColumnLineage) -> dict[str, Any]:
    """The lineage as JSON.

    ``inputs`` are datasets of the pipeline, by name, and others, by namespace and name. ``sources`` are columns: the
    number of the input, and the column's name. ``columns`` and ``rows`` have uses: the number of the source, and how.
    """
    inputs = list(lineage.datasets)
    numbers = {dataset: number for number, dataset in enumerate(inputs)}
    every = (use for uses in (*(column.uses for column in lineage.columns), lineage.rows) for use in uses)
    sources = dict.fromkeys((numbers[use.dataset], use.column) for use in every)
    places = {source: number for number, source in enumerate(sources)}

    def written(uses: Iterable[ColumnUse]) -> list[list[Any]]:
        return [[places[numbers[use.dataset], use.column], use.use] for use in uses]

    return {
        "inputs": [_input_body(dataset) for dataset in inputs],
        "sources": [list(source) for source in sources],
        "columns": [[column.name, written(column.uses)] for column in lineage.columns],
        "rows": written(lineage.rows),
        "complete": lineage.is_complete,
    }


def lineage_of(body: Json) -> ColumnLineage:
    """The lineage of a JSON value; uses that a newer version has are left out."""
    inputs = [_input_of(one) for one in body["inputs"]]
    sources = [(inputs[number], str(column)) for number, column in body["sources"]]
    known = {use.value: use for use in Use}
    unknown = False

    def read(uses: Any) -> tuple[ColumnUse, ...]:
        nonlocal unknown
        unknown = unknown or any(how not in known for _, how in uses)
        return tuple(ColumnUse(sources[place][0], sources[place][1], known[how]) for place, how in uses if how in known)

    columns = tuple(OutputColumn(str(name), read(uses)) for name, uses in body["columns"])
    rows = read(body["rows"])
    return ColumnLineage(columns, rows, bool(body["complete"]) and not unknown)


def dataset_body(dataset: DatasetId) -> dict[str, str]:
    """A dataset outside of the pipeline as JSON."""
    return {"namespace": dataset.namespace, "name": dataset.name}


def dataset_of(body: Json) -> DatasetId:
    """The dataset of a JSON value."""
    return DatasetId(str(body["namespace"]), str(body["name"]))


def _input_body(dataset: InputDataset) -> Any:
    return dataset_body(dataset) if isinstance(dataset, DatasetId) else dataset


def _input_of(body: Any) -> InputDataset:
    return body if isinstance(body, str) else dataset_of(body)
