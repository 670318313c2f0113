"""Stops the update that holds the lease of a pipeline, whoever has started it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from headrace.errors import PipelineError
from headrace.project.lease_holders import host_name, liveness, read_holder
from headrace.settings.settings import Settings


def stop_update(settings: Settings, environ: Mapping[str, str], now: Callable[[], float], update_id: str) -> None:
    """Ask the process of an update to stop: running batches may finish. A second time, it stops at once.

    Args:
        settings: of the pipeline.
        environ: the environment variables.
        now: the time in seconds since 1970.
        update_id: the update.

    Raises:
        PipelineError: SERVE.NOT_RUNNING; SERVE.OTHER_HOST if it runs on another machine.
    """
    lease, host = settings.layout.lease, host_name(environ)
    held = liveness(lease, host, now)
    holder = read_holder(lease) if held.is_held else None
    if holder is None or holder.update_id != update_id:
        raise PipelineError("SERVE.NOT_RUNNING", what=f'update "{update_id}"')
    if holder.host != host:
        raise PipelineError("SERVE.OTHER_HOST", update=update_id, host=holder.host)
    # It may have ended by itself.
    if holder.python.is_alive:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(holder.python.pid, signal.SIGTERM)
