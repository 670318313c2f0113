"""When each flow of a plan looks for new input, from what the project declares; makes a plan continuous."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.graph.resolved import Mode, ResolvedFlow, ResolvedGraph
from headrace.model.names import QualifiedName
from headrace.model.triggers import INTERVAL_KEY, TRIGGER_KEY, Trigger, TriggerKind, parse_interval_s
from headrace.plan.steps import Decision, FlowStep, Plan

# Defaults of pipelines.trigger.interval, lakeflow.md 1.7.
STREAM_INTERVAL_S = 5.0
VIEW_INTERVAL_S = 60.0
EXTERNAL_VIEW_INTERVAL_S = 600.0
# How long a batch of real-time mode lasts: Spark's own default, and the vendor's.
REAL_TIME_BATCH_S = 300.0


def with_triggers(plan: Plan, *, continuous: bool, interval_s: float | None) -> Plan:
    """The plan with the trigger of each flow.

    Args:
        plan: what to do once.
        continuous: go on until stopped: streams run although nothing is new yet, views are looked at again and again.
        interval_s: the pipeline's own default, if it has one.
    """
    return replace(
        plan,
        flows=tuple(_step(plan.graph, step, continuous=continuous, interval_s=interval_s) for step in plan.flows),
        continuous=continuous,
    )


def trigger_of(graph: ResolvedGraph, flow: ResolvedFlow, *, continuous: bool, interval_s: float | None) -> Trigger:
    """When a flow looks for new input: what it says itself, else its table, else the pipeline, else the default."""
    said = declared(graph, flow, TRIGGER_KEY)
    kind = TriggerKind.of(said) if said is not None else TriggerKind.INTERVAL
    if flow.mode is Mode.ONCE or kind is None or (kind.goes_on and not continuous):
        return Trigger()
    if not kind.goes_on:
        return Trigger(kind)
    own = declared(graph, flow, INTERVAL_KEY)
    if own is not None:
        return Trigger(kind, parse_interval_s(own))
    if kind is TriggerKind.REAL_TIME:
        return Trigger(kind, REAL_TIME_BATCH_S)
    return Trigger(kind, _default_interval_s(flow) if interval_s is None else interval_s)


def partial_inputs(plan: Plan) -> Iterator[tuple[FlowStep, QualifiedName]]:
    """Flows of a continuous update that end, each with a table that they read and that goes on growing after that."""
    going_on = {step.flow.target for step in plan.flows if step.trigger.kind.goes_on}
    for step in plan.flows:
        if step.decision is Decision.START and not step.trigger.kind.goes_on:
            for given in plan.graph.stored_inputs(step.flow):
                if given.name in going_on:
                    yield step, given.name


def declared(graph: ResolvedGraph, flow: ResolvedFlow, key: str) -> str | None:
    """A conf of a flow, or else a property of its table."""
    return flow.flow.spark_conf.get(key, graph.by_name[flow.target].dataset.properties.get(key))


def _step(graph: ResolvedGraph, step: FlowStep, *, continuous: bool, interval_s: float | None) -> FlowStep:
    trigger = trigger_of(graph, step.flow, continuous=continuous, interval_s=interval_s)
    if not continuous or step.decision is Decision.EXCLUDE or step.flow.mode is Mode.ONCE:
        return replace(step, trigger=trigger)
    if trigger.kind.goes_on:
        idle = step.decision is Decision.UP_TO_DATE
        reason = f"runs until stopped; {step.reason} so far" if idle else step.reason
        return replace(step, decision=Decision.START, reason=reason, conditional=False, trigger=trigger, waits=idle)
    return replace(step, trigger=trigger)


def _default_interval_s(flow: ResolvedFlow) -> float:
    if flow.mode in (Mode.APPEND, Mode.UPDATE, Mode.MERGE):
        return STREAM_INTERVAL_S
    return EXTERNAL_VIEW_INTERVAL_S if flow.analysis.external else VIEW_INTERVAL_S
