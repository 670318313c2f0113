"""Writes down what users ask for, in the log of what is done beside updates.

The event log is ordered by a number that its writer reads once, so that only the holder of the lease writes it.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from headrace.events.envelope import Origin
from headrace.events.expiry import Retention
from headrace.events.log import EventLog
from headrace.events.upkeep import UserAction
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile


def record_action(settings: Settings, redact: Callable[[str], str], action: UserAction) -> None:
    """Write what somebody asks for.

    Args:
        settings: the pipeline's.
        redact: removes secrets from a text.
        action: who asks for what.

    Raises:
        PipelineError, OSError: it cannot be written.
    """
    with EventLog(
        settings.layout.monitoring(MonitoringFile.OPERATIONS),
        origin=Origin(settings.id, settings.name, str(uuid.uuid4()), host=socket.gethostname()),
        clock=lambda: datetime.now(tz=UTC),
        new_id=lambda: str(uuid.uuid4()),
        redact=redact,
        retention=Retention(*settings.event_log_retention),
    ) as log:
        log.emit(action)
