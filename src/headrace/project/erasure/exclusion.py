"""Keeps updates and maintenance out of a storage while rows are erased from it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.project.maintenance.lock import maintenance_lock
from headrace.settings.storage import MonitoringFile, StorageLayout


@contextmanager
def exclusive(layout: StorageLayout, environ: Mapping[str, str]) -> Iterator[Lease]:
    """Hold the lock of maintenance and the lease of a storage; yields the lease.

    Maintenance runs beside updates, without their lease. It would rewrite files that the erasure is about to delete.

    Raises:
        PipelineError: MAINTENANCE.RUNNING, LEASE.HELD.
    """
    with (
        maintenance_lock(Path(layout.monitoring(MonitoringFile.MAINTENANCE_LOCK))),
        Lease(layout.lease, host_name(environ), time.time) as lease,
    ):
        yield lease
