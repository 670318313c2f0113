"""All there is to know about one dataset, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow

_EFFECTS = {
    Mode.APPEND: "adds what is new in its sources; a full refresh clears the table and reads them from the start",
    Mode.COMPLETE: "replaces the table with the whole aggregate in each batch; add a watermark to append instead",
    Mode.ONCE: "appends its rows exactly once, and again after a full refresh",
    Mode.REPLACE: "replaces the table in one commit when its inputs, code or settings changed, otherwise does nothing",
    Mode.VIEW: "stores nothing; computed by the flows that read it",
}


@dataclass(frozen=True)
class FlowExplanation:
    """One flow of the dataset."""

    flow: ResolvedFlow
    epoch: int
    checkpoint: str | None
    next_update: str

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
            "stateful": list(analysis.stateful),
            "unrepeatable": analysis.unrepeatable,
            "epoch": self.epoch,
            "checkpoint": self.checkpoint,
            "trigger": "availableNow" if self.flow.mode in (Mode.APPEND, Mode.COMPLETE) else None,
            "refresh": _EFFECTS[self.flow.mode],
            "next_update": self.next_update,
        }


@dataclass(frozen=True)
class Explanation:
    """A dataset with its flows."""

    dataset: ResolvedDataset
    flows: tuple[FlowExplanation, ...]
    version: int | None

    def to_json(self) -> dict[str, Any]:
        """The explanation for programs."""
        declared = self.dataset.dataset
        return {
            "dataset": str(self.dataset.name),
            "kind": self.dataset.kind.value,
            "comment": declared.comment,
            "location": declared.location.to_json(),
            "path": self.dataset.path,
            "format": "delta" if self.dataset.path else None,
            "version": self.version,
            "partition_by": list(declared.partition_by),
            "cluster_by": list(declared.cluster_by),
            "properties": dict(declared.properties),
            "schema": [{"name": c.name, "type": c.type_text} for c in self.dataset.schema.columns],
            "expectations": [
                {"name": e.name, "action": e.action.value, "predicate": e.text} for e in declared.expectations
            ],
            "flows": [flow.to_json() for flow in self.flows],
        }

    def describe(self) -> str:
        """The explanation as stable text."""
        said = self.to_json()
        lines = [f"{said['dataset']}  ({self.dataset.kind.label})"]
        if said["comment"]:
            lines.append(f"  {said['comment']}")
        lines.append(f"  defined at   {self.dataset.dataset.location}")
        if said["path"]:
            state = "not there yet" if self.version is None else f"version {self.version}"
            lines.append(f"  table        {said['path']} (delta, {state})")
        lines += [f"  {key:<12} {', '.join(said[key])}" for key in ("partition_by", "cluster_by") if said[key]]
        lines.append("  columns")
        lines += [f"    {column['name']}  {column['type']}" for column in said["schema"]]
        if said["expectations"]:
            lines.append("  expectations")
            lines += [f"    {e['action']:<10} {e['name']}: {e['predicate']}" for e in said["expectations"]]
        for flow in said["flows"]:
            lines.append(f"  flow {flow['flow']} ({flow['mode']}, {flow['language']})")
            reads = [f"{i['name']}{' (stream)' if i['streaming'] else ''}" for i in flow["inputs"]]
            lines.append(f"    reads        {', '.join([*reads, *flow['external']]) or 'nothing'}")
            if flow["stateful"]:
                lines.append(f"    keeps state  {', '.join(flow['stateful'])}")
            if flow["checkpoint"]:
                lines.append(f"    checkpoint   {flow['checkpoint']} (epoch {flow['epoch']})")
            if flow["trigger"]:
                lines.append(f"    trigger      {flow['trigger']}")
            lines.append(f"    refresh      {flow['refresh']}")
            lines.append(f"    next update  {flow['next_update']}")
        return "\n".join(lines)
