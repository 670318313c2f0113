"""How tables are laid out: partitions for very large ones, liquid clustering for large ones, nothing for small ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.decisions.row_sizes import row_bytes
from headrace.model.sizes import size_text

_YEAR_S = 365 * 86400
# Delta's guidance: partition above a terabyte, with at least a gigabyte in each partition.
_PARTITION_BYTES = 1 << 40
_CLUSTER_BYTES = 10 << 30
# Columns in Parquet are compressed: what a row takes on disk, against what it takes in memory.
_COMPRESSION = 0.3
_RAW_LAYERS = (DatasetKind.BRONZE, DatasetKind.CLEAN, DatasetKind.DEDUP, DatasetKind.ENRICH)
_PAGE = "guides/partitioning"


@dataclass(frozen=True)
class Layout:
    """The layout of a table: partitioned by the day of this column, or clustered by these columns."""

    partition_day_of: str | None = None
    cluster_by: tuple[str, ...] = ()


def layout_of(dataset: Dataset) -> Layout:
    """The layout of a table; of tables without all records, the keys decide, because their size is unknown."""
    if dataset.kind not in _RAW_LAYERS or not dataset.is_stream:
        return Layout()
    size, time = year_bytes(dataset), dataset.event_time
    if size > _PARTITION_BYTES and time is not None:
        return Layout(partition_day_of=time)
    if size > _CLUSTER_BYTES:
        return Layout(cluster_by=(time,) if time else dataset.keys[:1])
    return Layout()


def year_bytes(dataset: Dataset) -> int:
    """The bytes that a table with all records of its source has after a year."""
    rate = dataset.source.events_per_s or 0.0
    return int(rate * _YEAR_S * row_bytes(dataset.columns) * _COMPRESSION)


def layout_decisions(blueprint: Blueprint) -> Iterator[Decision]:
    """One decision for each table with all records of a source."""
    for dataset in blueprint.of(*_RAW_LAYERS):
        if not dataset.is_stream:
            continue
        layout, size = layout_of(dataset), size_text(year_bytes(dataset))
        if layout.partition_day_of:
            choice = f"partitioned by the day of {layout.partition_day_of}"
            reason = f"about {size} a year: old days can be left out of a query, and deleted, as a whole"
        elif layout.cluster_by:
            choice = f"clustered by {', '.join(layout.cluster_by)}"
            reason = f"about {size} a year, which is too little for partitions: they would have small files"
        else:
            choice = "neither partitioned nor clustered"
            reason = f"about {size} a year: queries read it as a whole in little time"
        yield Decision(
            f"layout.{dataset.name}",
            choice,
            reason,
            ("partitions by a column with many values: many small files, and slow queries",),
            _PAGE,
        )
