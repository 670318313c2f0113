"""Repairs a flow of the storage under the lease, so that no update sees it half done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.errors import PipelineError
from headrace.graph.build import did_you_mean
from headrace.model.names import InvalidName, Naming
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth, repair


def repaired(
    settings: Settings, environ: Mapping[str, str], name: str, look: Callable[[], tuple[FlowHealth, ...]]
) -> tuple[Path, ...]:
    """Set aside torn files of the flows that a name means; where they are now.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        name: of a flow, or of the dataset that it feeds.
        look: at the flows of the storage as they are now.

    Raises:
        PipelineError: CHECKPOINTS.UNKNOWN, CHECKPOINTS.NOT_MENDABLE, LEASE.HELD.
    """
    _chosen(look(), name, settings.naming)
    with Lease(Path(settings.layout.lease), host_name(environ), time.time):
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        chosen = _chosen(look(), name, settings.naming)
        moved = [file for flow in chosen for file in repair(flow, stamp)]
        files = {flow.stored.file for flow in chosen}
        for flow in look():
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


def _chosen(flows: tuple[FlowHealth, ...], name: str, naming: Naming) -> tuple[FlowHealth, ...]:
    found = tuple(flow for flow in flows if flow.stored.name == name)
    if not found:
        try:
            dataset = naming.canonical(name)
        except InvalidName:
            dataset = None
        found = tuple(flow for flow in flows if flow.stored.dataset == dataset)
    if not found:
        known = [flow.stored.name for flow in flows]
        raise PipelineError("CHECKPOINTS.UNKNOWN", flow=name, suggestion=did_you_mean(name, known))
    return found
