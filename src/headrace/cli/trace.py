"""The verb that shows where the time of an update went, and pushes it as a trace. It starts no JVM."""

from __future__ import annotations

import os
from collections import Counter
from typing import Annotated, Any

import typer

from headrace.cli.invocation import invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.metrics.otlp_trace import push_trace
from headrace.metrics.trace import NEWEST_BATCHES, Span, Trace
from headrace.model.version import __version__
from headrace.project.inspection.update_trace import update_trace

_COLUMNS = ("flow", "state", "seconds", "batches", "in_batches", "slowest_phase", "slowest_batch")


def trace(
    context: typer.Context,
    update: Annotated[
        str | None,
        typer.Argument(metavar="UPDATE", help="The id of an update, or its beginning. Default: the latest."),
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option("--otlp", metavar="URL", help="Push to an OpenTelemetry collector, over HTTP."),
    ] = None,
    batches: Annotated[
        int, typer.Option("--batches", metavar="N", min=1, help="Only so many batches of each flow, the newest.")
    ] = NEWEST_BATCHES,
) -> None:
    """Show where the time of an update went: its flows, batches and their phases.

    With --output json, prints all spans. Works after the update has ended, and while it runs.
    """
    invocation = invocation_of(context)
    settings = invocation.location.settings()
    found = update_trace(settings, os.environ, update, batches)
    if found is None:
        invocation.result("no update yet", None)
        return
    if otlp is None:
        invocation.result(trace_text(found, width=invocation.width), spans_json(found))
        return
    push_trace(otlp, settings.name, found, version=__version__)
    spans = sum(1 for _ in found.spans())
    done = {"otlp": otlp, "trace_id": f"{found.trace_id:032x}", "spans": spans}
    invocation.result(f"pushed {spans} spans of trace {done['trace_id']} to {otlp}", done)


def trace_text(found: Trace, *, width: int | None) -> str:
    """A line about the update, and one for each attempt of a flow."""
    root = found.root
    first = f"update {found.update_id}  {root.attributes['headrace.state']}  {root.duration_s:.1f} s"
    lines = [f"{first}  since {root.start:%Y-%m-%d %H:%M:%S} UTC"]
    rows = [_flow_row(span) for span in root.children]
    if rows:
        lines.append(text_table(_COLUMNS, rows, width=width))
    left_out = sum(int(span.attributes.get("headrace.batches_left_out", 0)) for span in root.children)
    if left_out:
        lines.append(f"{left_out} older batches are left out: --batches")
    return "\n".join(lines)


def spans_json(found: Trace) -> list[dict[str, Any]]:
    """Each span as a JSON object, parents first; ids as OpenTelemetry writes them."""
    return [
        {
            "trace_id": f"{found.trace_id:032x}",
            "span_id": f"{span_id:016x}",
            "parent_id": None if parent is None else f"{parent:016x}",
            "name": span.name,
            "started_at": span.start.isoformat(),
            "ended_at": span.end.isoformat(),
            "duration_s": round(span.duration_s, 6),
            "attributes": dict(span.attributes),
            "error": None if span.failure is None else {"code": span.failure.code, "message": span.failure.message},
        }
        for span_id, parent, span in found.spans()
    ]


def _flow_row(flow: Span) -> tuple[Any, ...]:
    phases: Counter[str] = Counter()
    for batch in flow.children:
        for phase in batch.children:
            phases[phase.name] += round(1000 * phase.duration_s)
    slowest = max(flow.children, key=lambda batch: batch.duration_s, default=None)
    longest = phases.most_common(1)
    return (
        printable(str(flow.attributes["flow"])),
        flow.attributes["headrace.state"],
        round(flow.duration_s, 1),
        sum(int(batch.attributes.get("headrace.batches", 1)) for batch in flow.children),
        round(sum(batch.duration_s for batch in flow.children), 1),
        f"{longest[0][0]} {longest[0][1] / 1000:.1f} s" if longest else "",
        "" if slowest is None else f"{slowest.name}: {slowest.duration_s:.1f} s",
    )
