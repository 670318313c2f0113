"""The JSON of ``stream_progress``: a body from which the facts can be read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from headrace.model.executor_time import ExecutorTime
from headrace.model.stream_progress import BatchTiming, OperatorProgress, SourceProgress, StreamBatches

_TIMES = ("started_at", "watermark", "newest_event_time")


def progress_body(progress: StreamBatches) -> dict[str, Any]:
    """The facts as a JSON object, whose times are still to be converted to ISO 8601."""
    body = {**asdict(progress), "slowest_phase": progress.slowest_phase, **executor_body(progress.executor_time)}
    del body["executor_time"]
    if not progress.timings:
        del body["timings"]
    return body


def executor_body(time: ExecutorTime | None) -> dict[str, int]:
    """The time of executors in the body of an event; empty if unknown."""
    return {} if time is None else {"executor_run_ms": time.run_ms, "executor_cpu_ms": time.cpu_ms}


def executor_time_of(body: Mapping[str, Any]) -> ExecutorTime | None:
    """The time of executors in a body; None if it has none, as those of older versions."""
    return ExecutorTime(body["executor_run_ms"], body["executor_cpu_ms"]) if "executor_run_ms" in body else None


def progress_of(body: Mapping[str, Any]) -> StreamBatches:
    """The facts of a body; fields that this version does not know are ignored.

    Law: with its times converted, ``progress_of(progress_body(progress)) == progress``.
    """
    known = {field.name: body[field.name] for field in fields(StreamBatches) if field.name in body}
    times = {name: datetime.fromisoformat(known[name]) for name in _TIMES if known.get(name) is not None}
    operators = tuple(OperatorProgress(**_known(OperatorProgress, one)) for one in known.get("operators", ()))
    sources = tuple(SourceProgress(**_known(SourceProgress, one)) for one in known.get("sources", ()))
    more = {"timings": tuple(map(_timing, known.get("timings", ()))), "executor_time": executor_time_of(body)}
    return StreamBatches(**{**known, **times, "operators": operators, "sources": sources, **more})


def _timing(body: Mapping[str, Any]) -> BatchTiming:
    known = _known(BatchTiming, body)
    return BatchTiming(**{**known, "started_at": datetime.fromisoformat(known["started_at"])})


def _known(kind: type[BatchTiming | OperatorProgress | SourceProgress], body: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: body[field.name] for field in fields(kind)}
