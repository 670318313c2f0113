"""The checkpoint of a flow as facts: its newest batch, where it stands in its sources, its size, and its problem."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from headrace.events.recorded import Recorded
from headrace.events.types import BatchDone, FlowDefined
from headrace.metrics.dataset_health import Health
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading
from headrace.project.inspection.flow_checkpoint import EpochState, FlowCheckpoint
from headrace.project.inspection.stored_checkpoint import stored_checkpoint
from headrace.serve.formats import iso
from headrace.serve.pages.facts import error_facts
from headrace.serve.pipelines import ServedPipeline
from headrace.storage.health import batch_or_none

_SOURCES = 50
_CHECKPOINTS = ["headrace", "checkpoints"]


def checkpoint_facts(
    pipeline: ServedPipeline, defined: FlowDefined, reports: Iterable[Recorded], reading: CarefulReading
) -> dict[str, Any] | None:
    """The checkpoint of a flow; None if the storage has no record of it, or cannot be read.

    Args:
        pipeline: the pipeline.
        defined: the flow.
        reports: its newest batches, with which its checkpoint must agree.
        reading: notes what cannot be read.
    """
    logged = _newest_logged(defined, reports)
    read = partial(
        stored_checkpoint, pipeline.settings, defined.flow, defined.dataset, frozenset(defined.inputs), logged
    )
    key = ("checkpoint", defined.flow)
    found = reading.read("the checkpoint", lambda: pipeline.remembered.of(key, read), None)
    return None if found is None else _facts(found)


def _newest_logged(defined: FlowDefined, reports: Iterable[Recorded]) -> tuple[int, int] | None:
    """The newest epoch and batch; epochs below zero are backfills, which are no progress of the flow."""
    batches = [one.event for one in reports if isinstance(one.event, BatchDone)]
    known = ((one.epoch, one.batch_id) for one in batches if one.epoch >= 0 and one.dataset == defined.dataset)
    return max(known, default=None)


def _facts(found: FlowCheckpoint) -> dict[str, Any]:
    health, batches = found.health, found.health.batches
    current = next((epoch for epoch in found.epochs if epoch.number == batches.epoch), None)
    others = [epoch for epoch in found.epochs if epoch.number != batches.epoch and epoch.size.files]
    problem = None if health.problem is None else error_facts(health.problem.to_json())
    return {
        "has_checkpoint": health.has_checkpoint,
        "mark": (Health.BAD if problem else Health.WARN if found.is_unfinished else Health.OK).value,
        "commit": _commit(found),
        "epoch": batches.epoch,
        "planned": batch_or_none(batches.planned),
        "done": batch_or_none(batches.done),
        "in_table": None if batches.committed is None else batch_or_none(batches.committed),
        "last_batch_at": iso(found.last_batch_at or None),
        "watermark": iso(found.watermark or None),
        "sources": [{"source": one.source, "position": one.position} for one in found.positions[:_SOURCES]],
        "source_count": len(found.positions),
        "files": None if current is None else current.size.files,
        "bytes": None if current is None else current.size.size_bytes,
        **_sum(others),
        "problem": problem,
        "ways_out": [{"command": one.command, "effect": one.effect} for one in found.ways_out()],
        "verify": [*_CHECKPOINTS, "verify"],
        "show": [*_CHECKPOINTS, "show", health.stored.name],
    }


def _commit(found: FlowCheckpoint) -> str:
    """The state of the newest batch in a word or two."""
    if found.health.problem is not None:
        return "cannot continue"
    if not found.health.has_checkpoint:
        return "no checkpoint"
    if batch_or_none(found.health.batches.planned) is None:
        return "no batch yet"
    return "not committed" if found.is_unfinished else "committed"


def _sum(epochs: Iterable[EpochState]) -> dict[str, int]:
    kept = [epoch.size for epoch in epochs]
    return {"old_epochs": len(kept), "old_bytes": sum(size.size_bytes for size in kept)}
