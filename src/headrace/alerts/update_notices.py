"""Mail about updates, as the vendor's ``notifications`` ask for it. Pure.

Source: lakeflow.md 2.1. The vendor retries updates, and calls a failure fatal if it does not. Here, flows are retried,
so a failure is fatal if a retry of its error would not help.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from headrace.alerts.messages import Message, MessageKind, Pipeline, one_line
from headrace.errors import conditions, spark_condition
from headrace.events.types import Event, FlowStateChanged, UpdateStateChanged
from headrace.model.outcome import FlowState, UpdateState
from headrace.settings.alert_settings import AlertSettings, UpdateNotice


def update_messages(
    event: Event, update_id: str, settings: AlertSettings, pipeline: Pipeline, now: float
) -> Iterator[Message]:
    """The messages about an event of an update; none if nobody asked for it."""
    notice, channel = _notice(event), settings.mail_channel
    if notice is None or channel is None:
        return
    subject = event.flow if isinstance(event, FlowStateChanged) else ""
    lines = [
        event.message,
        *_error_lines(event.error if isinstance(event, FlowStateChanged | UpdateStateChanged) else None),
    ]
    for entry in settings.notifications:
        if notice not in entry.notices:
            continue
        identity = json.dumps([pipeline.id, update_id, subject, entry.recipients])
        yield Message(
            key=f"{sha256(identity.encode()).hexdigest()[:16]}-{notice.value}",
            channel=channel.name,
            kind=MessageKind.UPDATE,
            pipeline=pipeline.name,
            title=one_line(f"[{pipeline.name}] {event.message.splitlines()[0]}"),
            created_at=now,
            text="\n".join([*lines, f"update {update_id}", "To see more, run: headrace status"]),
            recipients=entry.recipients,
        )


def _notice(event: Event) -> UpdateNotice | None:
    match event:
        case FlowStateChanged(state=FlowState.FAILED):
            return UpdateNotice.FLOW_FAILURE
        case UpdateStateChanged(state=UpdateState.COMPLETED):
            return UpdateNotice.SUCCESS
        case UpdateStateChanged(state=UpdateState.FAILED, error=error):
            return UpdateNotice.FAILURE if _may_pass(error) else UpdateNotice.FATAL_FAILURE
        case _:
            return None


def _may_pass(error: Mapping[str, Any] | None) -> bool:
    code = str((error or {}).get("code", ""))
    own = conditions().get(code)
    return bool(spark_condition(code).retry if own is None else own.retry)


def _error_lines(error: Mapping[str, Any] | None) -> list[str]:
    found = error or {}
    return [f"{name}: {found[name]}" for name in ("detail", "hint") if found.get(name)]
