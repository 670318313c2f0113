"""Which results are streams, and which are computed again: the rule that all other decisions stand on.

A result with a latency of hours needs no state and no watermark: a materialized view has every late event. Steps that
look at one row only stay streams, because a stream reads each row once. So do results that a stream reads.
"""

from __future__ import annotations

from enum import Enum

from headrace.assistant.design.requirements import Output, OutputKind, Requirements

_RECOMPUTABLE = (OutputKind.DEDUP, OutputKind.ENRICH, OutputKind.WINDOWS, OutputKind.SESSIONS, OutputKind.JOIN)
BATCH_LATENCY_S = 12 * 3600.0
TRIGGERED_LATENCY_S = 300.0
CONTINUOUS_LATENCY_S = 1.0


class LatencyClass(str, Enum):
    """How results come to be, by their latency."""

    BATCH = "batch"
    TRIGGERED = "triggered"
    CONTINUOUS = "continuous"
    REAL_TIME = "real-time"


def latency_class(seconds: float) -> LatencyClass:
    """The class of a latency."""
    if seconds >= BATCH_LATENCY_S:
        return LatencyClass.BATCH
    if seconds >= TRIGGERED_LATENCY_S:
        return LatencyClass.TRIGGERED
    return LatencyClass.CONTINUOUS if seconds >= CONTINUOUS_LATENCY_S else LatencyClass.REAL_TIME


def is_recomputed(output: Output, requirements: Requirements) -> bool:
    """Whether an output is a materialized view instead of a stream; the latency must be known."""
    return _is_recomputed(output, requirements, frozenset({output.name}))


def _is_recomputed(output: Output, requirements: Requirements, seen: frozenset[str]) -> bool:
    if output.kind not in _RECOMPUTABLE:
        return False
    if latency_class(requirements.latency_of(output)) is not LatencyClass.BATCH:
        return False
    return all(
        _is_recomputed(reader, requirements, seen | {reader.name})
        for reader in requirements.outputs
        if reader.name not in seen and _streams_from(reader, output.name)
    )


def _streams_from(reader: Output, name: str) -> bool:
    # An enrichment reads its table as it is, not as a stream.
    return reader.reads == name or (reader.kind is OutputKind.JOIN and reader.joins == name)
