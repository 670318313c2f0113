"""The file with the alerts of a pipeline, and the earlier values that they are measured by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.alerts.alert import Alert, AlertState
from headrace.alerts.history import History
from headrace.alerts.messages import AlertEntry
from headrace.alerts.notices import Notice
from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.model.alert_rules import Severity

_FORMAT = 1


@dataclass(frozen=True)
class Reached:
    """A channel that has accepted a test message: its name, the digest of its target, and when."""

    channel: str
    digest: str
    at: float


@dataclass(frozen=True)
class StoredAlerts:
    """The alerts after the last check, earlier values of metrics, what channels were told, and which were tested."""

    alerts: tuple[Alert, ...] = ()
    history: History = History()  # noqa: RUF009 - it never changes
    notices: tuple[Notice, ...] = ()
    reached: tuple[Reached, ...] = ()


def read_alerts(file: Path) -> StoredAlerts:
    """The alerts in a file; none without one, and for a file that is damaged: the next check finds what holds.

    Raises:
        PipelineError: ALERTS.NOT_READABLE if the file cannot be read, or is from a newer version of Headrace, so that a
            check does not replace it.
    """
    try:
        document = json.loads(file.read_bytes())
        if document["format"] != _FORMAT:
            if document["format"] > _FORMAT:
                raise PipelineError("ALERTS.NOT_READABLE", path=file, reason="it is from a newer version")
            return StoredAlerts()
        # Files from before messages were sent have no notices.
        notices = tuple(map(_notice, document.get("notices", [])))
        # Files from before tests of channels were recorded have none.
        reached = tuple(map(_reached, document.get("reached", [])))
        history = History.from_json(document["history"])
        return StoredAlerts(tuple(map(_alert, document["alerts"])), history, notices, reached)
    except FileNotFoundError:
        return StoredAlerts()
    except OSError as error:
        raise PipelineError("ALERTS.NOT_READABLE", path=file, reason=error.strerror or str(error)) from error
    except (ValueError, LookupError, TypeError, AttributeError):
        return StoredAlerts()


def write_alerts(file: Path, stored: StoredAlerts) -> None:
    """Replace the file.

    Raises:
        PipelineError: ALERTS.NOT_WRITTEN.
    """
    alerts = [alert.to_json() for alert in stored.alerts]
    notices = [asdict(notice) for notice in stored.notices]
    reached = [asdict(one) for one in stored.reached]
    document = {
        "format": _FORMAT,
        "alerts": alerts,
        "history": stored.history.to_json(),
        "notices": notices,
        "reached": reached,
    }
    try:
        replace_file(file, json.dumps(document))
    except OSError as error:
        raise PipelineError("ALERTS.NOT_WRITTEN", path=file, reason=error.strerror or str(error)) from error


def _alert(given: Mapping[str, Any]) -> Alert:
    resolved_at, user = given["resolved_at"], given["acknowledged_by"]
    return Alert(
        rule_id=str(given["rule_id"]),
        severity=Severity(given["severity"]),
        labels={str(name): str(label) for name, label in given["labels"].items()},
        message=str(given["message"]),
        first_step=str(given["first_step"]),
        state=AlertState(given["state"]),
        since=float(given["since"]),
        last_true_at=float(given["last_true_at"]),
        resolved_at=None if resolved_at is None else float(resolved_at),
        acknowledged_by=None if user is None else str(user),
        silenced_until=float(given["silenced_until"]),
        is_hidden=bool(given["is_hidden"]),
    )


def _reached(given: Mapping[str, Any]) -> Reached:
    return Reached(str(given["channel"]), str(given["digest"]), float(given["at"]))


def _notice(given: Mapping[str, Any]) -> Notice:
    sent_at = given["sent_at"]
    return Notice(
        channel=str(given["channel"]),
        alert_key=str(given["alert_key"]),
        entry=AlertEntry.from_json(given["entry"]),
        seen_at=float(given["seen_at"]),
        sent_at=None if sent_at is None else float(sent_at),
        repeats=int(given["repeats"]),
        message_id=str(given["message_id"]),
        is_delivered=bool(given["is_delivered"]),
    )
