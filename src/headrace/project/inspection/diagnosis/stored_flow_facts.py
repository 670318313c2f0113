"""What the storage has of each flow, for the doctor."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator
from typing import Any

from headrace.assistant.doctor.facts import Logged, StoredFlowFacts
from headrace.checkpoints.epochs import has_started
from headrace.checkpoints.initial_offsets import newest_initial_batch
from headrace.checkpoints.state_damage import find_state_damage
from headrace.checkpoints.state_formats import format_of
from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.graph.resolved_flows import Mode
from headrace.plan.agreement import NONE
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading
from headrace.project.inspection.flow_checkpoint import flow_checkpoint
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth, health_of_flows
from headrace.storage.old_epochs import old_parts
from headrace.stores.paths import StoragePath, storage_path

# The age from which `headrace checkpoints clean` removes old parts.
_UNUSED_S = 30 * 86_400.0
# Flow types of streams in the event log.
_STREAMS = frozenset({"APPEND", "COMPLETE", "UPDATE", "CHANGE"})


def stored_flow_facts(settings: Settings, reading: CarefulReading, now: float) -> tuple[StoredFlowFacts, ...] | None:
    """What the storage has of each flow, also if its event log cannot be read; None if the storage cannot be read.

    Args:
        settings: the pipeline's.
        reading: reads with care.
        now: the time in seconds since 1970.
    """
    layout, naming = settings.layout, settings.naming
    logged = reading.read("the batches in the event log", EventReader(layout.events).last_batches, {})
    flows = reading.read("the checkpoints", lambda: health_of_flows(layout, naming, settings.id, logged), None)
    return None if flows is None else tuple(_flow_facts(settings, flow, reading, now) for flow in flows)


def lost_flow_facts(
    settings: Settings,
    logged: Logged,
    stored: tuple[StoredFlowFacts, ...],
    flows_with_batches: Callable[[], Collection[str]],
) -> Iterator[StoredFlowFacts]:
    """Streams that have batches in the event log, and whose whole folder in the storage is gone.

    Args:
        settings: the pipeline's.
        logged: what the event log has.
        stored: the flows in the storage.
        flows_with_batches: the names of the flows that have batches in the event log; reads all of it.
    """
    known = {flow.name for flow in stored}
    for name, flow in logged.flows.items():
        if name in known or flow.once or flow.mode not in _STREAMS:
            continue
        dataset = settings.naming.canonical(flow.dataset)
        # The record of a flow whose state was removed on purpose stays.
        has_record = storage_path(settings.layout.flow_state(settings.naming, dataset, name)).is_file()
        if not has_record and name in flows_with_batches():
            checkpoint = settings.layout.checkpoint(settings.naming, dataset, name, 0)
            params: dict[str, Any] = {"flow": name, "name": flow.dataset, "checkpoint": checkpoint, "otherwise": ""}
            command = f"headrace run --full-refresh {shlex.quote(flow.dataset)}"
            problem = PipelineError("FLOW.CHECKPOINT_LOST", **params)
            yield StoredFlowFacts(name, flow.dataset, problem=problem, ways_out=(command,))


def _flow_facts(settings: Settings, flow: FlowHealth, reading: CarefulReading, now: float) -> StoredFlowFacts:
    stored, checkpoint = flow.stored, flow.stores.checkpoint
    part = f'the checkpoint of flow "{stored.name}"'

    def ways_out() -> tuple[str, ...]:
        if flow.problem is None:
            return ()
        shown = flow_checkpoint(flow, settings.layout, settings.naming)
        return tuple(way.command for way in shown.ways_out())

    def removable() -> tuple[int, int]:
        parts = old_parts(flow, now - _UNUSED_S).removable
        return len(parts), sum(one.size.size_bytes for one in parts)

    has_state = flow.has_checkpoint and (checkpoint / "state").is_dir()
    number, size = reading.read(part, removable, (0, 0))
    return StoredFlowFacts(
        name=stored.name,
        dataset=str(stored.dataset),
        mode=flow.stores.mode.value,
        folder=str(stored.file.parent.resolve()),
        problem=flow.problem,
        ways_out=reading.read(part, ways_out, ()),
        has_state=has_state,
        state_format=reading.read(part, lambda: format_of(checkpoint), {}) if has_state else {},
        state_damage=reading.read(part, lambda: find_state_damage(checkpoint), None) if has_state else None,
        repeats_from=reading.read(part, lambda: next(_repeated_epochs(flow, checkpoint), None), None),
        old_parts=number,
        old_bytes=size,
    )


def _repeated_epochs(flow: FlowHealth, checkpoint: StoragePath) -> Iterator[int]:
    """The epoch before the current one, if its rows are in the table and the current one began without positions."""
    record = flow.stored.record
    appends = flow.stores.mode in (Mode.APPEND, Mode.ONCE)
    if not appends or record.first_epoch >= record.epoch or not has_started(checkpoint):
        return
    if newest_initial_batch(checkpoint) == NONE:
        earlier = range(record.epoch - 1, record.first_epoch - 1, -1)
        yield from (number for number in earlier if has_started(checkpoint.parent / str(number)))
