"""When flows look for new input: what the confs say, and what a continuous update makes of a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import PipelineError
from headrace.graph.build import build
from headrace.graph.resolved_flows import Mode
from headrace.model.datasets import Dataset, Definitions, Flow, Kind, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.sinks import SinkDefinition
from headrace.model.triggers import InvalidInterval, Trigger, TriggerKind, parse_duration_s, parse_interval_s
from headrace.plan.steps import Decision, FlowStep, Plan
from headrace.plan.triggers import with_triggers

HERE = Location("transformations/a.py", 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10 seconds", 10), ("1 minute", 60), ("2 hours", 7200), ("1 day", 86400), ("500 ms", 0.5), ("interval 5 s", 5)],
)
def test_an_interval_is_a_number_with_a_unit(text, seconds):
    assert parse_interval_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("0.5 m", 30), ("5min", 300), ("2 minutes", 120), ("5ms", 0.005)]
)
def test_m_means_minutes_in_settings(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "ten seconds", "5 lightyears", "-1 seconds", "1 minute 3"])
def test_an_invalid_interval_is_refused(text):
    with pytest.raises(InvalidInterval):
        parse_interval_s(text)


@pytest.mark.parametrize(
    ("conf", "code"),
    [
        ({"pipelines.trigger.interval": "soon"}, "TRIGGER.BAD_INTERVAL"),
        ({"pipelines.trigger": "RealTime"}, "TRIGGER.REAL_TIME"),
        ({"pipelines.trigger": "continuous"}, "TRIGGER.UNSUPPORTED"),
        ({"pipelines.trigger": "sometimes"}, "TRIGGER.UNKNOWN"),
        ({"pipelines.trigger": "AvailableNow", "pipelines.trigger.interval": "1 minute"}, None),
    ],
)
def test_invalid_or_unsupported_triggers_are_refused(conf, code):
    name = QualifiedName("a")
    flow = Flow("a", name, PythonQuery(lambda: None, Naming()), HERE, spark_conf=conf)

    _, problems = build(Definitions((Dataset(name, Kind.TABLE, HERE),), (flow,)), Naming())

    assert [problem.code for problem in problems] == ([code] if code else [])
    assert all(isinstance(problem, PipelineError) and problem.hint for problem in problems)


@pytest.mark.parametrize(
    ("kind", "options", "updates", "confs", "why"),
    [
        ("kafka", {}, True, {}, None),
        ("kafka", {}, True, {"pipelines.trigger.interval": "5 seconds"}, None),
        ("kafka", {}, True, {"pipelines.trigger.interval": "1 second"}, "its batches last 1 s"),
        ("kafka", {"Fallback": "storage"}, True, {}, "its sink has a fallback"),
        ("kafka", {}, True, {"headrace.failing_rows": "quarantine"}, "failing rows cannot become dead letters"),
        ("kafka", {}, False, {}, "it is not an update flow"),
        ("http", {}, True, {}, "its target is not a single Kafka sink"),
    ],
)
def test_the_real_time_trigger_requires_an_update_flow_into_a_kafka_sink(kind, options, updates, confs, why):
    name, query = QualifiedName("out"), PythonQuery(lambda: None, Naming())
    needed = {"kafka": {"kafka.bootstrap.servers": "here:9092"}, "http": {"url": "http://here"}}[kind]
    sink = SinkDefinition(kind, Naming(), options={**needed, **options})
    conf = {"pipelines.trigger": "RealTime", **confs}
    flow = Flow("a", name, query, HERE, spark_conf=conf, append=True, updates=updates)

    _, problems = build(Definitions((Dataset(name, Kind.SINK, HERE, sink=sink),), (flow,)), Naming())

    assert [problem.code for problem in problems] == (["TRIGGER.REAL_TIME"] if why else [])
    assert all(why in problem.message for problem in problems)


def test_the_real_time_trigger_applies_only_to_continuous_updates(triggers, make):
    flow = make.flow("a", mode=Mode.APPEND)
    flow = replace(flow, flow=replace(flow.flow, spark_conf={"pipelines.trigger": "realtime"}))

    on, off = triggers(flow), triggers(flow, continuous=False)

    assert (on["a"].trigger, off["a"].trigger) == (Trigger(TriggerKind.REAL_TIME, 300), Trigger())
    assert on["a"].describe().endswith("in real time, progress noted every 300 s")


@pytest.fixture
def triggers(make):
    def of(*flows, decision=Decision.START, continuous=True, interval_s=None, **declared):
        steps = tuple(FlowStep(flow, decision, "why", conditional=True) for flow in flows)
        plan = with_triggers(
            Plan(make.graph(*flows, **declared), (), steps), continuous=continuous, interval_s=interval_s
        )
        return {step.flow.name: step for step in plan.flows}

    return of


def every(seconds):
    return Trigger(TriggerKind.INTERVAL, seconds)


def test_default_trigger_intervals_match_databricks(triggers, make):
    steps = triggers(
        make.flow("stream", mode=Mode.APPEND),
        make.flow("whole", mode=Mode.COMPLETE),
        make.flow("view"),
        make.flow("outside", external=("/data",)),
        make.flow("single", mode=Mode.ONCE),
    )

    assert [step.trigger for step in steps.values()] == [every(5), every(60), every(60), every(600), Trigger()]


def test_a_flow_trigger_overrides_the_table_trigger_and_both_override_the_pipeline(triggers, make):

    own = make.flow("own", mode=Mode.APPEND)
    own = replace(own, flow=replace(own.flow, spark_conf={"pipelines.trigger.interval": "1 second"}))
    table = {"properties": {"pipelines.trigger.interval": "2 seconds"}}

    assert triggers(own, make.flow("b"), interval_s=3.0, **table)["own"].trigger == every(1)
    assert triggers(own, make.flow("b"), interval_s=3.0, **table)["b"].trigger == every(2)
    assert triggers(make.flow("b"), interval_s=3.0)["b"].trigger == every(3)


def test_a_continuous_update_starts_streams_that_are_up_to_date(triggers, make):
    flows = (make.flow("stream", mode=Mode.APPEND), make.flow("single", mode=Mode.ONCE))

    steps = triggers(*flows, decision=Decision.UP_TO_DATE)

    assert (steps["stream"].decision, steps["single"].decision) == (Decision.START, Decision.UP_TO_DATE)
    assert not steps["stream"].conditional


def test_a_triggered_update_uses_the_available_now_trigger(triggers, make):
    steps = triggers(make.flow("stream", mode=Mode.APPEND), decision=Decision.UP_TO_DATE, continuous=False)

    assert steps["stream"].trigger == Trigger(TriggerKind.AVAILABLE_NOW)
    assert steps["stream"].decision is Decision.UP_TO_DATE
