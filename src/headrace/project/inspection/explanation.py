"""The explanation of one dataset, as a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from headrace.cdc.feed import MergePath
from headrace.cdc.merge_commit import WritePath
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import ChangeFlow, CompleteFlow, Mode, RefreshFlow, ResolvedFlow, SnapshotFlow
from headrace.model.schema import Schema
from headrace.model.sizes import size_text
from headrace.model.type_changes import SchemaChange, schema_change
from headrace.plan.table_report import TableReport

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
# What fits next to the labels in 80 columns.
_TEXT_WIDTH = 65


@dataclass(frozen=True)
class TableFacts:
    """Facts about a table in the storage, from its log."""

    version: int
    rows: int
    size_bytes: int
    schema: Schema

    def describe(self) -> str:
        """Version, rows and size as text."""
        return f"version {self.version}, {self.rows} row{'' if self.rows == 1 else 's'}, {size_text(self.size_bytes)}"

    def to_json(self) -> dict[str, Any]:
        """The table as JSON."""
        return {"version": self.version, "rows": self.rows, "size_bytes": self.size_bytes}


@dataclass(frozen=True)
class MergedBatch:
    """A committed batch of change events, or a snapshot, from its commit."""

    batch_id: int
    path: MergePath
    written: WritePath | None
    rows_upserted: int
    rows_deleted: int

    def describe(self) -> str:
        """The merge path and the counts as text."""
        rows = f"{self.rows_upserted} rows upserted, {self.rows_deleted} deleted"
        written = "" if self.written is None else f"; {self.written.value}"
        return f"batch {self.batch_id}: {self.path.value}{written}; {rows}"

    def to_json(self) -> dict[str, Any]:
        """The batch as JSON."""
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

    ``positions`` has each source with its position; ``merged`` is the last batch of a change flow. ``delivers`` is True
    for a flow into a sink. ``state_bytes`` is the approximate state size of each operator.
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
        """The flow as JSON."""
        analysis = self.flow.analysis
        return {
            "flow": self.flow.name,
            "mode": self.flow.mode.value,
            "location": self.flow.flow.location.to_json(),
            "language": self.flow.flow.query.language,
            "inputs": [{"name": str(i.name), "streaming": i.streaming} for i in analysis.inputs],
            "external": list(analysis.external),
            "column_lineage": None if analysis.columns is None else analysis.columns.to_json(),
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
            "incremental": analysis.refresh.to_json() if analysis.refresh.is_known else None,
        }

    def _merge(self) -> dict[str, Any] | None:
        """How change events or snapshots are merged into the table, and why; None for other flows."""
        flow, truncates = self.flow, False
        if not isinstance(flow, ChangeFlow):
            return None
        if isinstance(flow, SnapshotFlow):
            path, why = MergePath.COMPARED_SNAPSHOT, "a snapshot does not record what changed"
        else:
            path, why = flow.feed.merge_path
            # Decided batch by batch, where it makes a difference.
            truncates = path is MergePath.LATEST_EVENT and flow.changes.truncates is not None
        return {
            "path": path.value,
            "why": why,
            "but": f"{MergePath.RECOMPUTED_KEYS.value} in batches with truncates" if truncates else None,
            "last": None if self.merged is None else self.merged.to_json(),
        }


@dataclass(frozen=True)
class Explanation:
    """The explanation of a dataset and its flows; ``table`` is None for a view and before the first update."""

    dataset: ResolvedDataset
    flows: tuple[FlowExplanation, ...]
    table: TableFacts | None = None
    read_by: tuple[str, ...] = ()
    # Why the next update would refuse this dataset, or skip some of its flows.
    problems: tuple[str, ...] = ()
    # None without a table.
    report: TableReport | None = None

    @property
    def _change(self) -> SchemaChange | None:
        return None if self.table is None else schema_change(self.table.schema, self.dataset.code_schema)

    @property
    def _replaced(self) -> bool:
        return all(isinstance(known.flow, RefreshFlow | CompleteFlow) for known in self.flows)

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON."""
        declared = self.dataset.dataset
        return {
            "dataset": str(self.dataset.name),
            "kind": self.dataset.kind.value,
            "private": declared.private,
            "comment": declared.comment,
            "location": declared.location.to_json(),
            "path": self.dataset.path,
            **({"published_as": ".".join(self.dataset.published_as)} if self.dataset.published_as else {}),
            "format": "delta" if self.dataset.path else None,
            "version": self.table.version if self.table else None,
            "table": self.table.to_json() if self.table else None,
            "layout": self.report.to_json() if self.report else None,
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
        """The columns in the code, then those that only the table has."""
        known = list(self.dataset.code_schema.names)
        table = self.table.schema.names if self.table else ()
        return known + [name for name in table if self.dataset.code_schema.find(name) is None]

    def _column(self, name: str) -> dict[str, Any]:
        coded = self.dataset.code_schema.find(name)
        held = self.table.schema.find(name) if self.table else None
        return {
            "name": name,
            "type": coded.type_text if coded else None,
            "table_type": held.type_text if held else None,
        }

    def _schema_changes(self) -> Iterator[str]:
        """The differences between the deployed table and the code, and their effects."""
        change = self._change
        if change is None:
            return
        addition = "the next recompute adds" if self._replaced else "the next update adds"
        yield from (f'{addition} "{field}" {field.after}' for field in change.added)
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
        published = ".".join(self.dataset.published_as or ())
        lines += [f"  published as {published}"] if published else []
        for key, columns in (("partition_by", declared.partition_by), ("cluster_by", declared.cluster_by)):
            lines += [f"  {key:<12} {', '.join(columns)}"] if columns else []
        lines += [f"  property     {key} = {value}" for key, value in declared.properties.items()]
        for label, text in self.report.describe() if self.report else ():
            first, *more = wrap(text, _TEXT_WIDTH, break_on_hyphens=False)
            lines += [f"  {label:<12} {first}", *(f"{'':15}{line}" for line in more)]
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
    document = flow.to_json()
    yield f"  flow {document['flow']} ({document['mode']}, {document['language']})"
    reads = [f"{given['name']}{' (stream)' if given['streaming'] else ''}" for given in document["inputs"]]
    yield f"    reads        {', '.join([*reads, *document['external']]) or 'nothing'}"
    yield from (f"    {label:<12} {text}" for label, text in _lineage(flow))
    yield from (f"    keeps state  {operator}{size}" for operator, size in _state(document))
    if document["checkpoint"]:
        yield f"    checkpoint   {document['checkpoint']} (epoch {document['epoch']})"
    yield from (f"    position     {source}: {position}" for source, position in flow.positions)
    if document["merge"]:
        but = f"; {document['merge']['but']}" if document["merge"]["but"] else ""
        yield f"    merge        {document['merge']['path']}, because {document['merge']['why']}{but}"
    if flow.merged:
        yield f"    last merge   {flow.merged.describe()}"
    if document["trigger"]:
        yield f"    trigger      {document['trigger']}"
    yield f"    refresh      {document['refresh']}"
    if document["incremental"]:
        first, *more = wrap(flow.flow.analysis.refresh.describe(), _TEXT_WIDTH, break_on_hyphens=False)
        yield f"    incremental  {first}"
        yield from (f"{'':17}{line}" for line in more)
    yield f"    next update  {document['next_update']}"


def _lineage(flow: FlowExplanation) -> Iterator[tuple[str, str]]:
    columns = flow.flow.analysis.columns
    return iter(()) if columns is None else columns.describe()


def _state(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each operator, with its approximate state size if a batch ran with these operators."""
    sizes = document["state_bytes"] if len(document["state_bytes"]) == len(document["stateful"]) else ()
    return zip_longest(document["stateful"], (f" (about {size_text(size)})" for size in sizes), fillvalue="")
