"""``design.mmd``: the sources, tables and sinks of a design as a Mermaid flowchart, by layer."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.requirements import ErrorPolicy
from headrace.assistant.design.source_defaults import facts_of

_LAYERS = ("bronze", "silver", "gold")
_TABLE, _VIEW, _SINK, _SOURCE = '[["{}"]]', '[("{}")]', '>"{}"]', '[/"{}"/]'
_SETS_ASIDE = (ErrorPolicy.QUARANTINE, ErrorPolicy.DEAD_LETTER)


def mermaid(blueprint: Blueprint) -> str:
    """The flowchart; a dashed arrow is a table that is read as it is, not as a stream."""
    return "\n".join(_lines(blueprint)) + "\n"


def _lines(blueprint: Blueprint) -> Iterator[str]:
    ids = _ids(blueprint)
    yield "flowchart LR"
    for source in blueprint.requirements.sources:
        if source.name in ids:
            yield f"  {ids[source.name]}{_SOURCE.format(f'{source.name}: {facts_of(source).title}')}"
    for layer in _LAYERS:
        tables = [dataset for dataset in blueprint.tables if dataset.kind.layer == layer]
        if tables:
            yield f"  subgraph {layer}"
            yield from (f"    {ids[table.name]}{_shape(table).format(_label(table))}" for table in tables)
            yield "  end"
    for sink in blueprint.of(DatasetKind.SINK):
        form = sink.output.format if sink.output is not None else ""
        yield f"  {ids[sink.name]}{_SINK.format(f'{sink.name}: {form}')}"
    for dataset in blueprint.datasets:
        if dataset.name in ids:
            yield from _arrows(dataset, blueprint, ids)
    if blueprint.requirements.on_error in _SETS_ASIDE:
        for bronze in blueprint.of(DatasetKind.BRONZE):
            yield f'  {ids[bronze.name]} -. wrong records .-> {ids[bronze.name]}q[("{bronze.name}_quarantine")]'


def _ids(blueprint: Blueprint) -> dict[str, str]:
    used = {dataset.source.name for dataset in blueprint.datasets}
    sources = [source.name for source in blueprint.requirements.sources if source.name in used]
    stored = [dataset.name for dataset in blueprint.datasets if not dataset.kind.is_view]
    return {
        **{name: f"s{number}" for number, name in enumerate(sources)},
        **{name: f"d{number}" for number, name in enumerate(stored)},
    }


def _shape(table: Dataset) -> str:
    return _TABLE if table.is_stream else _VIEW


def _label(table: Dataset) -> str:
    return f"{table.name}<br/>{table.kind.value}"


def _arrows(dataset: Dataset, blueprint: Blueprint, ids: dict[str, str]) -> Iterator[str]:
    if dataset.kind is DatasetKind.REFERENCE:
        yield f"  {ids[dataset.source.name]} -.-> {ids[dataset.name]}"
    for position, name in enumerate(dataset.reads):
        read = blueprint.dataset(name)
        while read.kind is DatasetKind.CHANGES:
            read = blueprint.dataset(read.reads[0])
        origin = read.source.name if read.kind.is_view else read.name
        is_table = not dataset.is_stream or (position == 1 and dataset.kind is DatasetKind.ENRICH)
        yield f"  {ids[origin]} {'-.->' if is_table else '-->'} {ids[dataset.name]}"
