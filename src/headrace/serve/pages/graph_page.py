"""The graph: what reads what, with health, rates and lag; as a picture and as a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import PipelineError
from headrace.graph.drawing import draw, neighbours
from headrace.metrics import catalogue
from headrace.metrics.dataset_health import Health
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.serve.charts import graph_picture
from headrace.serve.formats import iso
from headrace.serve.pages.facts import datasets_of, flow_facts, flow_values, healths, kind_of, value_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.serve.whole_numbers import whole_number

MOST_HOPS = 9
_SOURCE = "source"
_MOST_DIGITS = 3


@dataclass(frozen=True)
class Shown:
    """What of a graph is shown.

    Attributes:
        focus: only this dataset or source, and what is near it; empty for all.
        hops: how near, in edges.
        update: the graph as the update with this id saw it, of which the beginning is enough; empty for that of now.
    """

    focus: str = ""
    hops: int = 1
    update: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Shown:
        """What a query asks for; a number that is none is 1."""
        hops = whole_number(query.get("hops", "1"), _MOST_DIGITS)
        return cls(query.get("focus", ""), 1 if hops is None else min(hops, MOST_HOPS), query.get("update", ""))


def graph_page(pipeline: ServedPipeline, shown: Shown) -> Page:
    """The graph of a pipeline.

    Raises:
        PipelineError: SERVE.NO_PAGE if the focus is unknown, TRACE.NO_UPDATE, EVENTS.NOT_READABLE.
    """
    view, update_id = pipeline.view(), None
    if shown.update:
        past = pipeline.past_graph(shown.update)
        # What the storage had then, nobody knows: no rows, no lag, no health.
        view = replace(view, as_of=past.as_of.timestamp(), logged=past.logged, samples=past.samples)
        update_id = past.update_id
    focus, hops = shown.focus, shown.hops
    nodes, edges = _graph(view)
    total = len(nodes)
    if focus:
        if focus not in nodes:
            raise PipelineError("SERVE.NO_PAGE", what=f'dataset "{focus}"', suggestion=did_you_mean(focus, [*nodes]))
        near = neighbours(((edge["source"], edge["target"]) for edge in edges), focus, hops)
        nodes = {name: node for name, node in nodes.items() if name in near}
        edges = [edge for edge in edges if near.issuperset((edge["source"], edge["target"]))]
    drawing = draw(nodes, ((edge["source"], edge["target"]) for edge in edges))
    layers = {box.name: (box.layer, box.y) for box in drawing.boxes}
    # As they are read and tabbed through: from the sources to the ends.
    ordered = sorted(nodes.values(), key=lambda node: layers[node["name"]])
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "update_id": update_id,
        "focus": focus or None,
        "hops": hops if focus else None,
        "datasets_and_sources": total,
        "nodes": ordered,
        "edges": edges,
    }
    rates: dict[tuple[str, str], float] = {}
    for edge in edges:
        ends = (edge["source"], edge["target"])
        # Several flows may read the same for the same table.
        if edge["rows_per_second"] is not None:
            rates[ends] = rates.get(ends, 0.0) + edge["rows_per_second"]
    picture = graph_picture(drawing, (node["name"] for node in ordered), rates)
    return Page("graph.html", f"Graph: {pipeline.name}", document, {"graph": picture})


def _graph(view: PipelineView) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """The nodes by name, sources first, and the edges: each is a flow that reads a node and writes another one."""
    known, values = healths(view.samples), flow_values(view)
    datasets = datasets_of(view)
    flows_of: dict[str, list[dict[str, Any]]] = {name: [] for name in datasets}
    sources: dict[str, dict[str, Any]] = {}
    edges: list[dict[str, Any]] = []
    for name, flow in view.logged.flows.items():
        facts = flow_facts(view, name, values)
        flows_of[flow.dataset].append(facts)
        inputs = [*flow.inputs]
        for given in flow.external_inputs:
            source = given.name if given.name not in flows_of else f"{given.kind}: {given.name}"
            sources.setdefault(source, _source(source, given.kind))
            inputs.append(source)
        for read in dict.fromkeys(inputs):
            if read not in flows_of and read not in sources:
                sources[read] = _source(read, "table")
            rate = facts["rows_per_second"]
            edge = {"source": read, "target": flow.dataset, "flow": name, "mark": facts["mark"]}
            edges.append({**edge, "rows_per_second": rate})
    reads: dict[str, list[str]] = {name: [] for name in datasets}
    for edge in edges:
        if edge["source"] not in reads[edge["target"]]:
            reads[edge["target"]].append(edge["source"])
    nodes = dict(sources)
    for name in datasets:
        health = known.get(name, {"health": Health.UNKNOWN.value, "signals": []})
        nodes[name] = {
            "name": name,
            "is_source": False,
            "kind": kind_of(view, name),
            **health,
            "flows": [flow["flow"] for flow in flows_of[name]],
            "reads": reads[name],
            "state": _states(flows_of[name]),
            "rows_per_second": _sum(flow["rows_per_second"] for flow in flows_of[name]),
            "lag_s": value_of(view.samples, catalogue.LOCAL_LAG, name),
            "rows": value_of(view.samples, catalogue.TABLE_ROWS, name),
        }
    return nodes, edges


def _source(name: str, kind: str) -> dict[str, Any]:
    empty = dict.fromkeys(("health", "state", "rows_per_second", "lag_s", "rows"))
    return {
        "name": name,
        "is_source": True,
        "kind": f"{kind} {_SOURCE}",
        "signals": [],
        "flows": [],
        "reads": [],
        **empty,
    }


def _states(flows: Iterable[dict[str, Any]]) -> str | None:
    """The states of the flows of a dataset, each once."""
    return ", ".join(dict.fromkeys(flow["state"] for flow in flows)) or None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
