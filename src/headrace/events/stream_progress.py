"""The JSON of ``stream_progress``: a body from which the facts can be read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from headrace.model.stream_progress import OperatorProgress, SourceProgress, StreamBatches

_TIMES = ("started_at", "watermark", "newest_event_time")


def progress_body(progress: StreamBatches) -> dict[str, Any]:
    """The facts as a JSON object, whose times are still to be converted to ISO 8601."""
    return {**asdict(progress), "slowest_phase": progress.slowest_phase}


def progress_of(body: Mapping[str, Any]) -> StreamBatches:
    """The facts of a body; fields that this version does not know are ignored.

    Law: with its times converted, ``progress_of(progress_body(progress)) == progress``.
    """
    known = {field.name: body[field.name] for field in fields(StreamBatches) if field.name in body}
    times = {name: datetime.fromisoformat(known[name]) for name in _TIMES if known.get(name) is not None}
    operators = tuple(OperatorProgress(**_known(OperatorProgress, one)) for one in known.get("operators", ()))
    sources = tuple(SourceProgress(**_known(SourceProgress, one)) for one in known.get("sources", ()))
    return StreamBatches(**{**known, **times, "operators": operators, "sources": sources})


def _known(kind: type[OperatorProgress | SourceProgress], body: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: body[field.name] for field in fields(kind)}
