"""Facts about datasets and flows that several pages show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import PipelineError
from headrace.events.past_updates import PastUpdate
from headrace.events.types import FlowDefined
from headrace.metrics import catalogue
from headrace.metrics.dataset_health import Health
from headrace.metrics.metric import Metric
from headrace.metrics.samples import Samples
from headrace.model.outcome import ACTIVE_STATES, FlowState
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.serve.formats import iso

ACTIVE = frozenset(state.value for state in ACTIVE_STATES)
UNKNOWN_STATE, VIEW_STATE = "UNKNOWN", "VIEW"
# The mark of each state: a shape and a colour, always beside its word.
MARKS = {
    FlowState.FAILED.value: Health.BAD.value,
    FlowState.LOST.value: Health.BAD.value,
    FlowState.RETRYING.value: Health.WARN.value,
    FlowState.SKIPPED.value: Health.WARN.value,
    FlowState.CANCELED.value: Health.WARN.value,
    FlowState.EXCLUDED.value: Health.UNKNOWN.value,
    UNKNOWN_STATE: Health.UNKNOWN.value,
    VIEW_STATE: Health.UNKNOWN.value,
}


def mark_of(state: str) -> str:
    """The mark of the state of a flow or an update."""
    return MARKS.get(state, Health.OK.value)


def value_of(samples: Samples, metric: Metric, *labels: str) -> float | None:
    """A value of a metric; None if it has none."""
    return samples.of(metric).get(labels)


def health_of(samples: Samples, dataset: str) -> dict[str, Any]:
    """The health of a dataset, and the signals that it comes from; unknown without data."""
    found = [(health, signal) for name, health, signal in samples.of(catalogue.HEALTH) if name == dataset]
    if not found:
        return {"health": Health.UNKNOWN.value, "signals": []}
    return {"health": found[0][0], "signals": [signal for _, signal in found if signal]}


def healths(samples: Samples) -> dict[str, dict[str, Any]]:
    """The health of all datasets that have one; of many, faster than one by one."""
    found: dict[str, dict[str, Any]] = {}
    for name, health, signal in samples.of(catalogue.HEALTH):
        entry = found.setdefault(name, {"health": health, "signals": []})
        entry["signals"] += [signal] if signal else []
    return found


@dataclass(frozen=True)
class FlowValues:
    """Values of all flows by name, found in one pass: the state in the latest update, the lag, where time goes."""

    states: Mapping[str, str]
    lag_s: Mapping[str, float]
    causes: Mapping[str, str]


def flow_values(view: PipelineView) -> FlowValues:
    """The values of all flows."""
    samples = view.samples
    lag_s: dict[str, float] = {}
    for (flow, _), seconds in samples.of(catalogue.LAG_SECONDS).items():
        lag_s[flow] = max(lag_s.get(flow, 0), seconds)
    states = {flow: state for flow, _, state in samples.of(catalogue.FLOW_STATE)}
    return FlowValues(states, lag_s, {labels[0]: labels[1] for labels in samples.of(catalogue.BOTTLENECK)})


def flow_facts(view: PipelineView, flow: str, values: FlowValues) -> dict[str, Any]:
    """The state of a flow, its rates and its lag; None for what is unknown."""
    samples, defined = view.samples, view.logged.flows.get(flow)
    # A view computes nothing itself.
    state = values.states.get(flow, VIEW_STATE if defined is not None and defined.mode == "VIEW" else UNKNOWN_STATE)
    return {
        "flow": flow,
        "dataset": defined.dataset if defined is not None else None,
        "state": state,
        "mark": mark_of(state),
        "is_active": state in ACTIVE,
        "rows_per_second": value_of(samples, catalogue.PROCESS_RATE, flow),
        "input_rows_per_second": value_of(samples, catalogue.INPUT_RATE, flow),
        "lag_s": values.lag_s.get(flow),
        "watermark_delay_s": value_of(samples, catalogue.WATERMARK_DELAY, flow),
        "last_batch_at": iso(value_of(samples, catalogue.LAST_BATCH, flow)),
        "bottleneck": values.causes.get(flow),
    }


def operator_facts(samples: Samples, flow: str) -> list[dict[str, Any]]:
    """What a flow last reported of its stateful operators: their memory and their rows."""
    rows = samples.of(catalogue.STATE_ROWS)
    return [
        {"operator": operator, "bytes": value, "rows": rows.get((name, operator))}
        for (name, operator), value in samples.of(catalogue.STATE_BYTES).items()
        if name == flow
    ]


def error_facts(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An error of the event log, with all of its fields: older versions did not store all."""
    if not error:
        return None
    place = error.get("location")
    location = {"file": str(place.get("file", "")), "line": place.get("line")} if isinstance(place, Mapping) else None
    texts = {name: error.get(name) for name in ("code", "message", "detail", "hint")}
    return {**{name: None if text is None else str(text) for name, text in texts.items()}, "location": location}


def update_facts(update: PastUpdate) -> dict[str, Any]:
    """An update with its mark."""
    return {**update.to_json(), "error": error_facts(update.error), "mark": mark_of(update.state.value)}


def kind_of(view: PipelineView, dataset: str) -> str:
    """The kind of a dataset in words."""
    defined = view.logged.datasets.get(dataset)
    if defined is not None:
        return defined.kind.label
    return "sink" if dataset in view.logged.sinks else "dataset"


def datasets_of(view: PipelineView) -> list[str]:
    """All datasets and sinks of the code, in the order of their definitions."""
    flows = (flow.dataset for flow in view.logged.flows.values())
    return list(dict.fromkeys((*view.logged.datasets, *view.logged.sinks, *flows)))


def flows_into(view: PipelineView, dataset: str) -> list[str]:
    """The flows that write to a dataset or sink.

    Raises:
        PipelineError: SERVE.NO_PAGE if there is no such dataset.
    """
    known = datasets_of(view)
    if dataset not in known:
        raise PipelineError("SERVE.NO_PAGE", what=f'dataset "{dataset}"', suggestion=did_you_mean(dataset, known))
    return [flow for flow, defined in view.logged.flows.items() if defined.dataset == dataset]


def flow_definition(view: PipelineView, flow: str) -> FlowDefined:
    """The definition of a flow.

    Raises:
        PipelineError: SERVE.NO_PAGE if there is no such flow.
    """
    found = view.logged.flows.get(flow)
    if found is None:
        raise PipelineError("SERVE.NO_PAGE", what=f'flow "{flow}"', suggestion=did_you_mean(flow, [*view.logged.flows]))
    return found


def lease_facts(view: PipelineView) -> dict[str, Any]:
    """Who runs the pipeline, and how old the newest event is."""
    newest = value_of(view.samples, catalogue.NEWEST_EVENT)
    holder = view.holder if view.is_held else None
    return {
        "is_held": view.is_held,
        "host": None if holder is None else holder.host,
        "pid": None if holder is None else holder.python.pid,
        "held_since": None if holder is None else iso(holder.held_since),
        "update_id": None if holder is None else holder.update_id,
        "newest_event_at": iso(newest),
        "newest_event_age_s": None if newest is None else round(max(view.as_of - newest, 0), 1),
    }
