"""The checkpoint of one flow in words: epochs, batches, positions, state, and the ways out of a problem."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.checkpoints.epochs import checkpoint_numbers, kept_file, kept_numbers, read_epoch
from headrace.checkpoints.offsets import batch_metadata, newest_batches, query_id_of
from headrace.checkpoints.state_formats import format_of, format_text
from headrace.checkpoints.state_stores import StateOperator, state_operators
from headrace.delta_log.tables import table_state
from headrace.graph.resolved_flows import Mode
from headrace.model.names import Naming
from headrace.model.sizes import size_text
from headrace.plan.agreement import NONE
from headrace.settings.storage import StorageLayout
from headrace.storage.health import FlowHealth, batch_or_none, health_label
from headrace.storage.inventory import stored_tables
from headrace.storage.old_epochs import last_used_at
from headrace.storage.positions import SourcePosition, StoredTable, ledger_folders, source_positions
from headrace.storage.removal import Size, size_of
from headrace.stores.paths import StoragePath

# The modes in which a flow can start over and keep the rows of its table.
_RESETTABLE = (Mode.APPEND, Mode.UPDATE, Mode.MERGE)
# Of a text beside its label, on a terminal of 80 columns.
_WIDTH = 65
_REPAIRABLE = ("FLOW.CHECKPOINT_TORN", "FLOW.RECORD_UNREADABLE")


@dataclass(frozen=True)
class EpochState:
    """One epoch of a flow.

    Attributes:
        number: the epoch.
        state: "current", "older", "removed" (only its positions are kept) or "missing".
        planned: the newest planned batch; None for none.
        done: the newest completed batch; None for none.
        last_used_at: when the newest batch was planned, in seconds since 1970; 0 if unknown.
        size: the files and bytes of the checkpoint, or of the file with its positions.
        in_table: whether the table has rows of the epoch.
    """

    number: int
    state: str
    planned: int | None
    done: int | None
    last_used_at: float
    size: Size
    in_table: bool

    def to_json(self) -> dict[str, Any]:
        """The epoch for programs."""
        return {
            "epoch": self.number,
            "state": self.state,
            "planned": self.planned,
            "done": self.done,
            "last_batch_at": time_text(self.last_used_at),
            "files": self.size.files,
            "bytes": self.size.size_bytes,
            "in_table": self.in_table,
        }


@dataclass(frozen=True)
class WayOut:
    """A command that ends a problem, and its effect."""

    command: str
    effect: str


@dataclass(frozen=True)
class FlowCheckpoint:
    """The checkpoint of one flow.

    Attributes:
        health: the flow and what keeps it from continuing.
        query_id: the id of its query; None before its first start.
        format: the settings under which its state opens; empty before the first batch.
        metadata: what Spark stored with the newest planned batch.
        positions: the position of each source.
        operators: its stateful operators.
        epochs: all of its epochs, newest first.
    """

    health: FlowHealth
    query_id: str | None
    format: dict[str, str]
    metadata: dict[str, Any]
    positions: tuple[SourcePosition, ...]
    operators: tuple[StateOperator, ...]
    epochs: tuple[EpochState, ...]

    @property
    def is_unfinished(self) -> bool:
        """True if a batch was planned and not completed."""
        return self.health.has_checkpoint and self.health.batches.done < self.health.batches.planned

    @property
    def last_batch_at(self) -> float:
        """When the newest batch was planned, in seconds since 1970; 0 if unknown."""
        return float(self.metadata.get("batchTimestampMs", 0) or 0) / 1000

    @property
    def watermark(self) -> float:
        """The watermark of the newest batch, in seconds since 1970; 0 if there is none."""
        return float(self.metadata.get("batchWatermarkMs", 0) or 0) / 1000

    def ways_out(self) -> tuple[WayOut, ...]:
        """The commands that end the problem of the flow, mildest first; empty without a problem."""
        stored, problem = self.health.stored, self.health.problem
        dataset = shlex.quote(str(stored.dataset))
        if problem is None:
            run = WayOut(f"headrace run --refresh {dataset}", f"finishes batch {self.health.batches.planned}")
            return (run,) if self.is_unfinished else ()
        if problem.code in _REPAIRABLE:
            repair = "moves the damaged file away, so that the next update continues"
            return (WayOut(f"headrace checkpoints repair {shlex.quote(stored.name)}", repair),)
        refresh = WayOut(f"headrace run --full-refresh {dataset}", "clears the table and reads the sources again")
        return (refresh, *self._resets())

    def _resets(self) -> Iterator[WayOut]:
        if self.health.stores.mode not in _RESETTABLE:
            return
        name, signature = self.health.stored.name, self.health.stored.record.state_signature
        is_stateless = not self.operators and (signature is None or not signature.operators)
        if is_stateless and self.positions and all(position.is_known for position in self.positions):
            yield WayOut(
                f"headrace run --reset-checkpoint {shlex.quote(f'{name}=latest')}",
                "keeps the rows; reads only what arrives from now on",
            )
        yield WayOut(
            f"headrace run --reset-checkpoint {shlex.quote(f'{name}=earliest')}",
            "keeps the rows; reads all again: the table can have rows twice",
        )

    def to_json(self) -> dict[str, Any]:
        """The checkpoint for programs."""
        health, batches = self.health, self.health.batches
        committed = batches.committed if health.has_numbered_batches else None
        return {
            "flow": health.stored.name,
            "dataset": str(health.stored.dataset),
            "mode": health.stores.mode.value,
            "state": health_label(health),
            "epoch": batches.epoch,
            "checkpoint": str(health.stores.progress_path),
            "has_checkpoint": health.has_checkpoint,
            "query_id": self.query_id,
            "planned": batch_or_none(batches.planned),
            "done": batch_or_none(batches.done),
            "committed": None if committed is None else batch_or_none(committed),
            "reported": {store: batch_or_none(batch) for store, batch in batches.reported.items()},
            "last_batch_at": time_text(self.last_batch_at),
            "watermark": time_text(self.watermark),
            "format": {"text": format_text(self.format), "confs": self.format} if self.format else None,
            "sources": [position.to_json() for position in self.positions],
            "state_operators": [operator.to_json() for operator in self.operators],
            "epochs": [epoch.to_json() for epoch in self.epochs],
            "problem": None if health.problem is None else health.problem.to_json(),
            "ways_out": [{"command": way.command, "effect": way.effect} for way in self.ways_out()],
        }


def time_text(seconds: float) -> str | None:
    """A moment as ISO 8601 in UTC; None for 0."""
    return None if seconds <= 0 else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def flow_checkpoint(
    health: FlowHealth, layout: StorageLayout, naming: Naming, tables: Sequence[StoredTable] | None = None
) -> FlowCheckpoint:
    """What the storage has of a flow's checkpoints.

    Args:
        health: the flow.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        tables: those that it reads, if they are known; None for all of the storage.
    """
    checkpoint, folder = health.stores.checkpoint, health.stored.file.parent
    epochs = tuple(_epochs(health, folder)) if health.has_checkpoint else ()
    if not health.has_checkpoint:
        return FlowCheckpoint(health, None, {}, {}, (), (), epochs)
    if tables is None:
        found = ((name, table_state(path)) for name, path in stored_tables(layout, naming))
        tables = [StoredTable(name, state) for name, state in found if state is not None]
    planned = health.batches.planned
    return FlowCheckpoint(
        health=health,
        query_id=query_id_of(checkpoint),
        format=dict(format_of(checkpoint)),
        metadata={} if planned == NONE else batch_metadata(checkpoint, planned),
        positions=source_positions(checkpoint, tables, ledger_folders(folder)),
        operators=state_operators(checkpoint),
        epochs=epochs,
    )


def _epochs(health: FlowHealth, folder: StoragePath) -> Iterator[EpochState]:
    current, first = health.batches.epoch, health.stored.record.first_epoch
    there, kept = checkpoint_numbers(folder), kept_numbers(folder)
    for number in sorted({*there, *kept, *range(first, current + 1)}, reverse=True):
        in_table = first <= number <= current
        checkpoint = folder / str(number)
        if number in there:
            planned, done = newest_batches(checkpoint)
            state = "current" if number == current else "older" if number < current else "not in the record"
            yield EpochState(number, state, planned, done, last_used_at(checkpoint), size_of(checkpoint), in_table)
            continue
        epoch = read_epoch(checkpoint)
        size = size_of(kept_file(checkpoint)) if number in kept else Size()
        batch = None if epoch.progress is None else epoch.progress.batch_id
        done = batch if epoch.progress is not None and epoch.progress.completed else None
        state = "missing" if epoch.is_lost else "removed"
        yield EpochState(number, state, batch, done, 0.0, size, in_table)


def describe(found: FlowCheckpoint) -> str:
    """The checkpoint as text."""
    health, batches = found.health, found.health.batches
    lines = [f"{health.stored.name}  ({health.stores.mode.value} flow of {health.stored.dataset})"]
    lines.append(f"  state        {health_label(health)}")
    if not health.has_checkpoint:
        lines.append("  checkpoint   none: its progress is in its record and its table")
        lines.append(f"  record       {health.stored.file} (epoch {batches.epoch})")
    else:
        lines += _checkpoint_lines(found)
    if health.problem is not None:
        lines += _wrapped("problem", f"{health.problem.message}. {health.problem.detail or ''}")
    for number, way in enumerate(found.ways_out()):
        label = "ways out" if number == 0 else ""
        lines += [f"  {label:<12} {way.command}", f"{'':<17}{way.effect}"]
    return "\n".join(lines)


def _wrapped(label: str, text: str) -> list[str]:
    """A long text below a label; paths are not broken."""
    parts = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"  {label if number == 0 else '':<12} {part}" for number, part in enumerate(parts)]


def _checkpoint_lines(found: FlowCheckpoint) -> Iterator[str]:
    health, batches = found.health, found.health.batches
    yield f"  checkpoint   {health.stores.checkpoint}"
    yield f"  epoch        {batches.epoch}"
    yield f"  query id     {found.query_id or 'none yet'}"
    has = "" if batches.committed is None else f", in the table {_batch(batches.committed)}"
    yield f"  batches      planned {_batch(batches.planned)}, completed {_batch(batches.done)}{has}"
    yield from (f"               {store}: {_batch(batch)}" for store, batch in sorted(batches.reported.items()))
    yield f"  last batch   {time_text(found.last_batch_at) or 'none yet'}"
    if found.watermark:
        yield f"  watermark    {time_text(found.watermark)}"
    if found.operators:
        yield f"  format       {format_text(found.format)}"
    for position in found.positions:
        yield f"  source       {position.source}"
        yield f"               {position.position}"
    for operator in found.operators:
        name = f" ({operator.name})" if operator.name else ""
        yield f"  state        operator {operator.number}{name}: about {size_text(operator.size_bytes)}"
        yield f"               {_count(operator.partitions, 'partition')}, {_count(operator.files, 'file')}"
    for number, epoch in enumerate(found.epochs):
        yield f"  {'epochs' if number == 0 else '':<12} {_epoch_text(epoch)}"


def _epoch_text(epoch: EpochState) -> str:
    if epoch.state == "missing":
        return f"{epoch.number}  missing: a full refresh cannot know what it read"
    batch = "no batch" if epoch.planned is None else f"batch {epoch.planned}"
    moment = f", {time_text(epoch.last_used_at)}" if epoch.last_used_at else ""
    held = "" if epoch.in_table else ", rows cleared"
    what = "removed, positions kept" if epoch.state == "removed" else epoch.state
    return f"{epoch.number}  {what}: {batch}{moment}, {size_text(epoch.size.size_bytes)}{held}"


def _batch(number: int) -> str:
    return "none" if number == NONE else str(number)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
