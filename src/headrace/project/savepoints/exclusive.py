"""The lease of a pipeline together with the lock of its maintenance, for what changes the storage as a whole."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.project.maintenance.lock import maintenance_lock
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile


@contextmanager
def exclusive(settings: Settings, environ: Mapping[str, str]) -> Iterator[Lease]:
    """Hold the lease of a pipeline while no maintenance runs.

    Raises:
        PipelineError: LEASE.HELD if an update is running, MAINTENANCE.RUNNING if maintenance is.
    """
    layout = settings.layout
    with (
        maintenance_lock(Path(layout.monitoring(MonitoringFile.MAINTENANCE_LOCK))),
        Lease(layout.lease, host_name(environ), time.time) as lease,
    ):
        yield lease
