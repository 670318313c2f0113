"""What a crash can repeat: nothing in tables; in sinks, what their systems allow."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.blueprint import Blueprint, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.sinks.formats import FORMATS, Delivery

_PAGE = "guides/guarantees"


def guarantee_decisions(blueprint: Blueprint) -> Iterator[Decision]:
    """One decision for all tables, and one for each sink."""
    wanted = blueprint.requirements.guarantee or "exactly-once"
    if blueprint.tables:
        extra = "" if wanted == "exactly-once" else "; at-least-once would cost as much"
        yield Decision(
            "guarantee",
            "tables have each record exactly once",
            f"the number of a batch is committed with its rows, so a repeated batch is skipped{extra}",
            (),
            _PAGE,
        )
    for sink in blueprint.of(DatasetKind.SINK):
        found = FORMATS[str(sink.output.format if sink.output else "")]
        exact = found.delivery is Delivery.EXACTLY_ONCE and not sink.is_real_time
        if exact:
            reason = found.deduplication[:1].lower() + found.deduplication[1:]
        elif sink.is_real_time:
            reason = "real-time mode stores its progress every 5 minutes, and sends what came after it again"
        else:
            reason = (
                f"a batch may be delivered again after a crash; a repeat is recognized {_lower(found.deduplication)}"
            )
        yield Decision(
            f"guarantee.{sink.name}",
            "exactly once" if exact else "at least once",
            reason,
            () if exact else ("a sink of the format delta, jdbc or files: exactly once",),
            _PAGE if exact else "guides/sinks",
            falls_short=wanted == "exactly-once" and not exact,
        )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
