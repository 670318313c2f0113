"""All there is to know about one dataset, as a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from headrace.cdc.feed import MergePath
from headrace.cdc.merge_commit import WritePath
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow
from headrace.model.schema import Schema
from headrace.model.type_changes import SchemaChange, schema_change

_EFFECTS = {
    Mode.APPEND: "adds new rows from its sources; a full refresh clears the table and reads the sources from the start",
    Mode.UPDATE: "delivers changed rows; a full refresh delivers all rows again",
    Mode.COMPLETE: "replaces the table with the whole aggregate in each batch; add a watermark to append instead",
    Mode.MERGE: "merges change events into the table; a full refresh clears it and reads its source from the start",
    Mode.SNAPSHOT: "updates the table to match each new snapshot; a full refresh starts with the first snapshot",
    Mode.ONCE: "appends its rows exactly once, and again after a full refresh",
    Mode.REPLACE: "replaces the table in one commit if its inputs, code or settings changed, otherwise does nothing",
    Mode.VIEW: "stores no rows; each query that reads it computes it",
}
_EFFECTS_ON_SINKS = {
    Mode.APPEND: "delivers new rows from its sources; a full refresh delivers all rows again and withdraws none",
    Mode.ONCE: "delivers its rows once, and again after a full refresh",
}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class TableFacts:
    """A table in the storage, as its log has it."""

    version: int
    rows: int
    size_bytes: int
    schema: Schema

    def describe(self) -> str:
        """Version, rows and size in words."""
        return f"version {self.version}, {self.rows} row{'' if self.rows == 1 else 's'}, {_size(self.size_bytes)}"

    def to_json(self) -> dict[str, Any]:
        """The table for programs."""
        return {"version": self.version, "rows": self.rows, "size_bytes": self.size_bytes}


@dataclass(frozen=True)
class MergedBatch:
    """A batch of change events, or a snapshot, that is in the table, as its commit has it."""

    batch_id: int
    path: MergePath
    written: WritePath | None
    rows_upserted: int
    rows_deleted: int

    def describe(self) -> str:
        """The way it took and what came of it, in words."""
        rows = f"{self.rows_upserted} rows upserted, {self.rows_deleted} deleted"
        written = "" if self.written is None else f"; {self.written.value}"
        return f"batch {self.batch_id}: {self.path.value}{written}; {rows}"

    def to_json(self) -> dict[str, Any]:
        """The batch for programs."""
        return {
            "batch_id": self.batch_id,
            "path": self.path.value,
            "written": None if self.written is None else self.written.value,
            "rows_upserted": self.rows_upserted,
            "rows_deleted": self.rows_deleted,
        }


@dataclass(frozen=True)
class FlowExplanation:
    """One flow of the dataset.

    ``positions`` has a source and where its reading stands, for each source; ``merged`` is the last batch of a flow
    that applies changes. ``delivers`` is true for one into a sink. ``state_bytes`` is about how much each operator
    keeps between batches.
    """

    flow: ResolvedFlow
    epoch: int
    checkpoint: str | None
    next_update: str
    trigger: str | None = None
    positions: tuple[tuple[str, str], ...] = ()
    merged: MergedBatch | None = None
    delivers: bool = False
    state_bytes: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The flow for programs."""
        analysis = self.flow.analysis
        return {
            "flow": self.flow.name,
            "mode": self.flow.mode.value,
            "location": self.flow.flow.location.to_json(),
            "language": self.flow.flow.query.language,
            "inputs": [{"name": str(i.name), "streaming": i.streaming} for i in analysis.inputs],
            "external": list(analysis.external),
            "stateful": [operator.description for operator in analysis.operators],
            "state_bytes": list(self.state_bytes),
            "unrepeatable": analysis.unrepeatable,
            "merge": self._merge(),
            "epoch": self.epoch,
            "checkpoint": self.checkpoint,
            "positions": [{"source": source, "position": position} for source, position in self.positions],
            "trigger": self.trigger,
            "refresh": (_EFFECTS_ON_SINKS if self.delivers else {}).get(self.flow.mode, _EFFECTS[self.flow.mode]),
            "next_update": self.next_update,
        }

    def _merge(self) -> dict[str, Any] | None:
        """Which way change events or snapshots take into the table, and why; None where there are none."""
        feed, changes = self.flow.analysis.feed, self.flow.flow.changes
        if feed is None:
            return None
        path, why = feed.path
        if self.flow.mode is Mode.SNAPSHOT:
            path, why = MergePath.COMPARED, "a snapshot does not record what changed"
        # Decided batch by batch, where it makes a difference.
        truncates = path is MergePath.NEWEST and changes is not None and changes.truncates is not None
        return {
            "path": path.value,
            "why": why,
            "but": f"{MergePath.REBUILT.value} in batches with truncates" if truncates else None,
            "last": None if self.merged is None else self.merged.to_json(),
        }


@dataclass(frozen=True)
class Explanation:
    """A dataset with its flows; ``table`` is None for a view and before the first update."""

    dataset: ResolvedDataset
    flows: tuple[FlowExplanation, ...]
    table: TableFacts | None = None
    read_by: tuple[str, ...] = ()
    # Why the next update would be refused, as far as this dataset is concerned, or would leave out flows of it.
    problems: tuple[str, ...] = ()

    @property
    def _change(self) -> SchemaChange | None:
        return None if self.table is None else schema_change(self.table.schema, self.dataset.in_code)

    @property
    def _replaced(self) -> bool:
        return all(flow.flow.mode in (Mode.REPLACE, Mode.COMPLETE) for flow in self.flows)

    def to_json(self) -> dict[str, Any]:
        """The explanation for programs."""
        declared = self.dataset.dataset
        return {
            "dataset": str(self.dataset.name),
            "kind": self.dataset.kind.value,
            "private": declared.private,
            "comment": declared.comment,
            "location": declared.location.to_json(),
            "path": self.dataset.path,
            "format": "delta" if self.dataset.path else None,
            "version": self.table.version if self.table else None,
            "table": self.table.to_json() if self.table else None,
            "partition_by": list(declared.partition_by),
            "cluster_by": list(declared.cluster_by),
            "properties": dict(declared.properties),
            "schema": [self._column(name) for name in self._names()],
            "schema_changes": list(self._schema_changes()),
            "expectations": [
                {"name": e.name, "action": e.action.value, "predicate": e.text} for e in declared.expectations
            ],
            "flows": [flow.to_json() for flow in self.flows],
            "read_by": list(self.read_by),
            "problems": list(self.problems),
        }

    def _names(self) -> list[str]:
        """The columns of the code, then those that the table has beside them."""
        known = list(self.dataset.in_code.names)
        table = self.table.schema.names if self.table else ()
        return known + [name for name in table if self.dataset.in_code.find(name) is None]

    def _column(self, name: str) -> dict[str, Any]:
        coded = self.dataset.in_code.find(name)
        held = self.table.schema.find(name) if self.table else None
        return {
            "name": name,
            "type": coded.type_text if coded else None,
            "table_type": held.type_text if held else None,
        }

    def _schema_changes(self) -> Iterator[str]:
        """How the deployed table differs from the code, and what comes of it."""
        change = self._change
        if change is None:
            return
        fate = "the next recompute adds" if self._replaced else "the next update adds"
        yield from (f'{fate} "{field}" {field.after}' for field in change.added)
        verb = "the next recompute changes" if self._replaced else "the next update widens"
        yield from (f'{verb} "{field}" from {field.before} to {field.after}' for field in change.widened)
        refused = "the next recompute changes" if self._replaced else "incompatible:"
        for field in change.refused:
            yield f'{refused} "{field}", {field.before or "absent"} in the table, {field.after or "absent"} in the code'

    def describe(self) -> str:
        """The explanation as stable text."""
        declared = self.dataset.dataset
        lines = [f"{self.dataset.name}  ({self.dataset.label})"]
        lines += [f"  {declared.comment}"] if declared.comment else []
        lines.append(f"  defined at   {declared.location}")
        if self.dataset.path:
            state = "not created yet" if self.table is None else self.table.describe()
            lines.append(f"  table        {self.dataset.path} (delta, {state})")
        for key, columns in (("partition_by", declared.partition_by), ("cluster_by", declared.cluster_by)):
            lines += [f"  {key:<12} {', '.join(columns)}"] if columns else []
        lines += [f"  property     {key} = {value}" for key, value in declared.properties.items()]
        lines.append(f"  read by      {', '.join(self.read_by) or 'nothing'}")
        lines.append("  columns")
        lines += [f"    {_column_text(self._column(name))}" for name in self._names()]
        lines += [f"    {change}" for change in self._schema_changes()]
        if declared.expectations:
            lines.append("  expectations")
            lines += [f"    {e.action.value:<10} {e.name}: {e.text}" for e in declared.expectations]
        for flow in self.flows:
            lines += _flow_lines(flow)
        lines += [f"  problem      {problem}" for problem in self.problems]
        return "\n".join(lines)


def _column_text(column: dict[str, Any]) -> str:
    if column["type"] is None:
        return f"{column['name']}  {column['table_type']}  (only in the table)"
    differs = column["table_type"] not in (None, column["type"])
    return f"{column['name']}  {column['type']}" + (f"  ({column['table_type']} in the table)" if differs else "")


def _flow_lines(flow: FlowExplanation) -> Iterator[str]:
    said = flow.to_json()
    yield f"  flow {said['flow']} ({said['mode']}, {said['language']})"
    reads = [f"{given['name']}{' (stream)' if given['streaming'] else ''}" for given in said["inputs"]]
    yield f"    reads        {', '.join([*reads, *said['external']]) or 'nothing'}"
    yield from (f"    keeps state  {operator}{size}" for operator, size in _state(said))
    if said["checkpoint"]:
        yield f"    checkpoint   {said['checkpoint']} (epoch {said['epoch']})"
    yield from (f"    position     {source}: {position}" for source, position in flow.positions)
    if said["merge"]:
        but = f"; {said['merge']['but']}" if said["merge"]["but"] else ""
        yield f"    merge        {said['merge']['path']}, because {said['merge']['why']}{but}"
    if flow.merged:
        yield f"    last merge   {flow.merged.describe()}"
    if said["trigger"]:
        yield f"    trigger      {said['trigger']}"
    yield f"    refresh      {said['refresh']}"
    yield f"    next update  {said['next_update']}"


def _state(said: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What each operator keeps, and about how much of it there is where a batch was done with these operators."""
    sizes = said["state_bytes"] if len(said["state_bytes"]) == len(said["stateful"]) else ()
    return zip_longest(said["stateful"], (f" (about {_size(size)})" for size in sizes), fillvalue="")


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size_bytes} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
