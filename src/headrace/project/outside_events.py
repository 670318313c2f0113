"""Events in the event log that no update writes: about savepoints, and about tables that come and go."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import Event
from headrace.settings.settings import Settings


def record_event(settings: Settings, redact: Callable[[str], str], event: Event) -> None:
    """Write an event under an id of its own.

    Args:
        settings: the pipeline's.
        redact: removes secrets from a text.
        event: what has happened.
    """
    with EventLog(
        settings.layout.events,
        origin=Origin(settings.id, settings.name, str(uuid.uuid4()), host=socket.gethostname()),
        clock=lambda: datetime.now(tz=UTC),
        new_id=lambda: str(uuid.uuid4()),
        redact=redact,
    ) as log:
        log.emit(event)
