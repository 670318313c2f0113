"""The trigger of each flow, as the project declares it. Makes a plan continuous."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import AppendFlow, MergeFlow, OneTimeFlow, ResolvedFlow, UpdateFlow
from headrace.model.names import QualifiedName
from headrace.model.triggers import INTERVAL_KEY, TRIGGER_KEY, Trigger, TriggerKind, parse_interval_s
from headrace.plan.steps import Decision, FlowStep, Plan

# Defaults of pipelines.trigger.interval, lakeflow.md 1.7.
STREAM_INTERVAL_S = 5.0
VIEW_INTERVAL_S = 60.0
EXTERNAL_VIEW_INTERVAL_S = 600.0
# Duration of a batch in real-time mode: the default of Spark and of the vendor.
REAL_TIME_BATCH_S = 300.0


def with_triggers(plan: Plan, *, continuous: bool, interval_s: float | None) -> Plan:
    """The plan with the trigger of each flow.

    Args:
        plan: the plan of a triggered update.
        continuous: run until stopped. Streams run without new input, views are polled.
        interval_s: the pipeline's default, if it has one.
    """
    return replace(
        plan,
        flows=tuple(_step(plan.graph, step, continuous=continuous, interval_s=interval_s) for step in plan.flows),
        continuous=continuous,
    )


def trigger_of(graph: ResolvedGraph, flow: ResolvedFlow, *, continuous: bool, interval_s: float | None) -> Trigger:
    """The trigger of a flow, as set by the flow, else its table, else the pipeline, else the default."""
    declared_kind = declared_conf(graph, flow, TRIGGER_KEY)
    kind = TriggerKind.of(declared_kind) if declared_kind is not None else TriggerKind.INTERVAL
    if isinstance(flow, OneTimeFlow) or kind is None or (kind.is_continuous and not continuous):
        return Trigger()
    if not kind.is_continuous:
        return Trigger(kind)
    own = declared_conf(graph, flow, INTERVAL_KEY)
    if own is not None:
        return Trigger(kind, parse_interval_s(own))
    if kind is TriggerKind.REAL_TIME:
        return Trigger(kind, REAL_TIME_BATCH_S)
    return Trigger(kind, _default_interval_s(flow) if interval_s is None else interval_s)


def partial_inputs(plan: Plan) -> Iterator[tuple[FlowStep, QualifiedName]]:
    """Flows of a continuous update that end, each with an input that is still updated after that."""
    continuous_tables = {step.flow.target for step in plan.flows if step.trigger.kind.is_continuous}
    for step in plan.flows:
        if step.decision is Decision.START and not step.trigger.kind.is_continuous:
            for given in plan.graph.stored_inputs(step.flow):
                if given.name in continuous_tables:
                    yield step, given.name


def declared_conf(graph: ResolvedGraph, flow: ResolvedFlow, key: str) -> str | None:
    """The conf of a flow, or else the property of its table."""
    return flow.flow.spark_conf.get(key, graph.by_name[flow.target].dataset.properties.get(key))


def _step(graph: ResolvedGraph, step: FlowStep, *, continuous: bool, interval_s: float | None) -> FlowStep:
    trigger = trigger_of(graph, step.flow, continuous=continuous, interval_s=interval_s)
    if not continuous or step.decision is Decision.EXCLUDE or isinstance(step.flow, OneTimeFlow):
        return replace(step, trigger=trigger)
    if trigger.kind.is_continuous:
        idle = step.decision is Decision.UP_TO_DATE
        reason = f"runs until stopped; {step.reason} so far" if idle else step.reason
        return replace(
            step, decision=Decision.START, reason=reason, conditional=False, trigger=trigger, is_waiting=idle
        )
    return replace(step, trigger=trigger)


def _default_interval_s(flow: ResolvedFlow) -> float:
    if isinstance(flow, AppendFlow | UpdateFlow | MergeFlow):
        return STREAM_INTERVAL_S
    return EXTERNAL_VIEW_INTERVAL_S if flow.analysis.external else VIEW_INTERVAL_S
