"""How many records a batch reads: the rate, times the interval, times the peak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.decisions.row_sizes import row_bytes
from headrace.assistant.design.decisions.triggers import interval_s, period_s
from headrace.assistant.design.durations import spoken
from headrace.assistant.design.requirements import Source, SourceKind
from headrace.model.sizes import size_text

# A batch of fewer records costs as much as one of these.
_LEAST_RECORDS = 1000
# A longer update is divided into batches that stand for this time, so that none needs much memory.
_LONGEST_S = 300
_MIB = 1 << 20
_RECORD_OPTIONS = {
    SourceKind.KAFKA: "maxOffsetsPerTrigger",
    SourceKind.CDC: "maxOffsetsPerTrigger",
    SourceKind.EVENT_HUBS: "maxEventsPerTrigger",
    SourceKind.JDBC: "maxRowsPerTrigger",
    SourceKind.SYNTHETIC: "rowsPerBatch",
}
_BYTE_OPTIONS = {SourceKind.FILES: "cloudFiles.maxBytesPerTrigger", SourceKind.DELTA: "maxBytesPerTrigger"}
_PAGE = "guides/rate-limits"


@dataclass(frozen=True)
class RateLimit:
    """The limit of a batch: an option of the reader and its value."""

    option: str
    value: str
    records: int
    interval_s: float


def rate_limit(view: Dataset, blueprint: Blueprint) -> RateLimit | None:
    """The limit of the batches that read a source; None if its reader has no such option, or the user set it."""
    source = view.source
    (bronze,) = blueprint.readers(view.name)[:1] or (view,)
    seconds = (
        max(interval_s(bronze, blueprint), 1.0) if blueprint.is_continuous else min(period_s(blueprint), _LONGEST_S)
    )
    records = max(ceil(_rate(source) * seconds * source.peak), _LEAST_RECORDS)
    given = {name.casefold() for name in source.options}
    option = _RECORD_OPTIONS.get(source.kind) or _BYTE_OPTIONS.get(source.kind) if source.kind else None
    if option is None or option.casefold() in given:
        return None
    value = str(records) if source.kind in _RECORD_OPTIONS else f"{_mib(records, source)}m"
    return RateLimit(option, value, records, seconds)


def rate_decisions(blueprint: Blueprint) -> Iterator[Decision]:
    """One decision for each source that a stream reads."""
    for view in blueprint.of(DatasetKind.SOURCE):
        source, limit = view.source, rate_limit(view, blueprint)
        if limit is None:
            yield _without_limit(source)
            continue
        bytes_text = f", about {size_text(limit.records * row_bytes(source.columns))}" if source.columns else ""
        least = " (at least 1000)" if limit.records == _LEAST_RECORDS else ""
        yield Decision(
            f"rate.{source.name}",
            f"{limit.option} = {limit.value}",
            f"{_rate(source):g} records a second x {spoken(limit.interval_s)} x peak {source.peak:g} = "
            f"{limit.records:,} records a batch{least}{bytes_text}; a backlog is read in such batches",
            (
                "no limit: the first batch after an outage reads everything, and can run out of memory",
                "a smaller limit: less memory, and the backlog is read more slowly",
            ),
            _PAGE,
        )


def _without_limit(source: Source) -> Decision:
    if source.kind is SourceKind.KINESIS:
        choice, reason = "maxFetchRate = 1.0, the default", "Kinesis gives at most 2 MB a second of each shard"
    elif source.kind is SourceKind.RATE:
        choice, reason = f"rowsPerSecond = {ceil(_rate(source))}", "the source makes its rows itself"
    else:
        choice, reason = "the limit in the options of the source", "the requirements set it"
    return Decision(f"rate.{source.name}", choice, reason, (), _PAGE)


def _rate(source: Source) -> float:
    if source.events_per_s is None:
        raise ValueError("the rate is an open question")
    return source.events_per_s


def _mib(records: int, source: Source) -> int:
    # Text takes about twice the bytes of a row in memory.
    return max(ceil(2 * records * row_bytes(source.columns) / _MIB), 1)
