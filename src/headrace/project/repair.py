"""Repairs a flow of the storage under the lease, so that no update sees a partial repair."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from headrace.errors import PipelineError
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth, flows_named, repair
from headrace.stores.paths import StoragePath


def repair_flows(
    settings: Settings, environ: Mapping[str, str], name: str, read_health: Callable[[], tuple[FlowHealth, ...]]
) -> tuple[StoragePath, ...]:
    """Move away damaged files of the flows with a name; returns their new paths.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        name: of a flow, or of its dataset.
        read_health: reads the current health of the stored flows.

    Raises:
        PipelineError: CHECKPOINTS.UNKNOWN, CHECKPOINTS.NOT_MENDABLE, LEASE.HELD.
    """
    flows_named(read_health(), name, settings.naming)
    with Lease(settings.layout.lease, host_name(environ), time.time):
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        chosen = flows_named(read_health(), name, settings.naming)
        moved = [file for flow in chosen for file in repair(flow, stamp)]
        files = {flow.stored.file for flow in chosen}
        for flow in read_health():
            if flow.stored.file in files and flow.problem is not None:
                problem = flow.problem
                raise PipelineError(
                    "CHECKPOINTS.NOT_MENDABLE",
                    flow=flow.stored.name,
                    problem=problem.message,
                    detail=problem.detail,
                    way=problem.hint,
                )
    return tuple(moved)
