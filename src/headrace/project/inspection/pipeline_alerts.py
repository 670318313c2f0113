"""Checks, lists, acknowledges and silences the alerts of a pipeline."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from headrace.alerts.alert import Alert, AlertState, advance
from headrace.alerts.conditions import Facts, findings
from headrace.alerts.store import StoredAlerts, read_alerts, write_alerts
from headrace.errors import PipelineError
from headrace.metrics.samples import Samples


class PipelineAlerts:
    """The alerts of one pipeline.

    Args:
        file: where they are stored.
        now: the time in seconds since 1970.
    """

    def __init__(self, file: Path, now: Callable[[], float]) -> None:
        self._file = file
        self._now = now

    def known(self) -> tuple[Alert, ...]:
        """The alerts of the last check, the most urgent first."""
        return read_alerts(self._file).alerts

    def check(self, samples: Samples) -> tuple[Alert, ...]:
        """Check every rule, and return all alerts, the most urgent first.

        Args:
            samples: the current metrics.

        Raises:
            PipelineError: ALERTS.NOT_WRITTEN.
        """
        with self._locked():
            stored, now = read_alerts(self._file), self._now()
            found = findings(Facts(samples, stored.history, now))
            alerts = advance(stored.alerts, found, now)
            if not self._file.parent.is_dir():
                # Before the first update there is no storage.
                return alerts
            write_alerts(self._file, StoredAlerts(alerts, stored.history.with_current(samples, now)))
        return alerts

    def acknowledge(self, key: str, user: str) -> Alert:
        """Record who knows of an alert. It stays open, and needs no attention until it is resolved.

        Raises:
            PipelineError: ALERTS.UNKNOWN, ALERTS.NOT_WRITTEN.
        """
        return self._change(key, lambda alert: replace(alert, acknowledged_by=user))

    def silence(self, key: str, seconds: float) -> Alert:
        """Let an alert need no attention for a time.

        Raises:
            PipelineError: ALERTS.UNKNOWN, ALERTS.NOT_WRITTEN.
        """
        return self._change(key, lambda alert: replace(alert, silenced_until=self._now() + seconds))

    def _change(self, key: str, changed: Callable[[Alert], Alert]) -> Alert:
        with self._locked():
            stored = read_alerts(self._file)
            alerts = {alert.key: alert for alert in stored.alerts if alert.state is not AlertState.RESOLVED}
            if key not in alerts:
                raise PipelineError("ALERTS.UNKNOWN", id=key, known=", ".join(alerts) or "none")
            new = changed(alerts[key])
            every = tuple(new if alert.key == key else alert for alert in stored.alerts)
            write_alerts(self._file, replace(stored, alerts=every))
        return new

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the file inside the block, if the storage is a local disk of this user."""
        lock = self._file.with_name(f"{self._file.name}.lock")
        try:
            handle = lock.open("w")
        except OSError:
            # Writing the file itself says what is wrong.
            yield
            return
        with handle:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
