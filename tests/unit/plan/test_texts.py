"""What ``plan``, ``explain`` and ``preview`` say, as text and as JSON; ``HEADRACE_GOLDEN=rewrite`` writes it anew."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cdc.feed import ChangeFeed, MergePath
from headrace.cdc.merge_commit import WritePath
from headrace.cdc.scd_spec import ScdSpec, ScdType
from headrace.delta_log.table_features import features_of
from headrace.delta_log.table_files import LiveFile, StoredFile
from headrace.delta_log.table_layout import TableLayout
from headrace.graph.analysis import StatefulOperator
from headrace.graph.resolved_flows import Mode
from headrace.model.expectations import Action, Expectation, ExpectationCount
from headrace.model.location import Location
from headrace.model.maintenance import DEFAULT_POLICY
from headrace.model.outcome import FlowCounts
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.model.triggers import Trigger
from headrace.plan.maintenance import Role
from headrace.plan.maintenance import TableFacts as TableFactsOfFiles
from headrace.plan.schema_evolution import EvolvedBy, evolution
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange, TableStep
from headrace.plan.table_report import table_report
from headrace.project.inspection.explanation import Explanation, FlowExplanation, MergedBatch, TableFacts

GOLDEN = Path(__file__).parent / "golden"
HERE = Location("transformations/a.py", 7)
COUNTED = StatefulOperator("aggregate", "1", "aggregate by window(at, 1 hour), origin: count(*)")


@pytest.fixture
def says():
    def compare(name, text):
        file = GOLDEN / f"{name}.txt"
        if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n", encoding="utf-8")
        assert file.read_text(encoding="utf-8") == f"{text}\n"

    return compare


@pytest.fixture
def silver(make):
    """A streaming table whose code has moved on from what is deployed."""
    flow = make.flow("silver", "~bronze", "airports", mode=Mode.APPEND, operators=(COUNTED,), external=("/data/legs",))
    rules = (Expectation("known", Action.DROP, "id IS NOT NULL", HERE),)
    graph = make.graph(
        make.flow("bronze", mode=Mode.APPEND),
        make.flow("airports"),
        flow,
        schema="id long, day timestamp_ntz, note string",
        comment="Legs; cleaned",
        properties={"headrace.strict": "false"},
        cluster_by=("id",),
        expectations=rules,
    )
    return graph, flow


def test_a_plan_shows_the_action_and_the_reason_for_each_flow(silver, make, says):
    graph, flow = silver
    step, _ = evolution(
        graph.by_name[flow.target],
        make.table(make.schema("id integer")),
        TableLayout(),
        EvolvedBy.STEP,
        full_refresh=False,
    )
    bronze, airports = graph.flows[:2]
    plan = Plan(
        graph,
        (TableStep(bronze.target, TableChange.CREATE, "new table"), step),
        (
            FlowStep(bronze, Decision.START, "first run"),
            FlowStep(airports, Decision.EXCLUDE, "not selected"),
            FlowStep(flow, Decision.START, step.reason, trigger=Trigger()),
        ),
    )

    says("plan", plan.describe())
    says("plan-json", json.dumps(plan.to_json(), indent=1, sort_keys=True))


def test_an_explanation_of_a_stream_shows_its_progress_and_pending_changes(silver, make, says):
    graph, flow = silver
    table = TableFacts(12, 345_678, 9_876_543, make.schema("id integer, day boolean, old string"))
    explained = FlowExplanation(
        flow,
        2,
        "/storage/checkpoints/default/silver/silver/2",
        'start: adds "note"',
        "availableNow",
        (('table "bronze"', "read through version 6 of 8"), ("source kafka", '{"legs": {"0": 12}}')),
    )

    facts = TableFactsOfFiles(
        "silver",
        "/storage/tables/default/silver",
        Role.STREAMING,
        z_order=("id",),
        files=tuple(LiveFile(f"{number}.parquet", 44_000, rows=1000, deleted_rows=number % 2) for number in range(224)),
        unordered=frozenset(f"{number}.parquet" for number in range(80)),
        stored=(StoredFile("old.parquet", 7_000_000, 0.0),),
        features=features_of(["deletionVectors", "typeWidening"], {}),
    )
    explanation = Explanation(
        graph.by_name[flow.target],
        (explained,),
        table,
        ("gold", "checks"),
        ('table "silver" cannot take it',),
        table_report(facts, DEFAULT_POLICY, 1_800_000_000.0),
    )

    says("explain-stream", explanation.describe())
    says("explain-stream-json", json.dumps(explanation.to_json(), indent=1, sort_keys=True))


def test_an_explanation_of_a_view_that_was_never_computed_is_short(make, says):
    graph = make.graph(make.flow("gold", "silver"), schema="id long")
    flow = FlowExplanation(graph.flows[0], 0, None, "start: first run")

    says("explain-view", Explanation(graph.datasets[0], (flow,)).describe())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "the newest event of a key decides, because events set every column, and the table shows version"),
        (
            {"derivable_in_merge": False},
            "the rows of changed keys are recomputed, because a MERGE cannot compute version",
        ),
        (
            {"derivable_from_rows": False},
            "the rows of changed keys are recomputed, because the table does not show version",
        ),
        (
            {"spec": ScdSpec(("id",), ("id",), partial=True)},
            "the rows of changed keys are recomputed, because a row is made of several",
        ),
        (
            {"spec": ScdSpec(("id",), ("id",), ScdType.TWO)},
            "the rows of changed keys are recomputed, because a late event changes versions",
        ),
    ],
)
def test_an_explanation_of_a_cdc_flow_shows_its_merge_path(make, change, why):
    feed = ChangeFeed(
        ScdSpec(("id",), ("id", "version")),
        "version",
        '"integer"',
        "{}",
        derivable_from_rows=True,
        derivable_in_merge=True,
    )
    flow = make.flow("users", "~events", mode=Mode.MERGE, feed=replace(feed, **change))
    graph = make.graph(flow)

    said = Explanation(graph.by_name[flow.target], (FlowExplanation(flow, 0, None, "start: first run"),)).describe()

    assert f"\n    merge        {why}" in said


def test_an_explanation_of_a_cdc_flow_shows_the_last_merged_batch(make):
    feed = ChangeFeed(
        ScdSpec(("id",), ("id", "version")),
        "version",
        '"integer"',
        "{}",
        derivable_from_rows=True,
        derivable_in_merge=True,
    )
    flow = make.flow("users", "~events", mode=Mode.MERGE, feed=feed)
    graph = make.graph(flow)
    batch = MergedBatch(7, MergePath.RECOMPUTED_KEYS, WritePath.REPLACED, 3, 1)
    explained = FlowExplanation(flow, 0, None, "start: ", merged=batch)

    said = Explanation(graph.by_name[flow.target], (explained,)).describe()

    ways = f"{MergePath.RECOMPUTED_KEYS.value}; {WritePath.REPLACED.value}"
    assert f"\n    last merge   batch 7: {ways}; 3 rows upserted, 1 deleted\n" in said


def test_graph_and_plan_warn_about_a_nondeterministic_sequence_column(make):
    feed = ChangeFeed(
        ScdSpec(("id",), ("id",)), "at", '"timestamp"', "{}", derivable_from_rows=False, derivable_in_merge=False
    )
    flow = make.flow("users", mode=Mode.MERGE, feed=replace(feed, sequence_depends_on="the time at which it is read"))
    graph = make.graph(flow)
    plan = Plan(graph, (), (FlowStep(flow, Decision.START, "first run"),))
    reason = (
        "its events are ordered by at, which depends on the time at which it is read: events that are read together "
        "tie, and their order changes when they are read again"
    )

    assert graph.describe().endswith(f"\n     warning: {reason}")
    assert plan.describe().endswith(f"\nwarning    users: {reason}")
    assert graph.to_json()["warnings"] == plan.to_json()["warnings"] == [{"flow": "users", "reason": reason}]


@pytest.mark.parametrize(("kind", "warned"), [("date", True), ("timestamp", False)])
def test_the_graph_warns_about_a_sequence_column_of_type_date(make, kind, warned):
    feed = ChangeFeed(
        ScdSpec(("id",), ("id", "day")), "day", f'"{kind}"', "{}", derivable_from_rows=True, derivable_in_merge=True
    )
    flow = make.flow("users", mode=Mode.MERGE, feed=feed)

    said = make.graph(flow).describe()

    assert ("     warning: its events are ordered by day, which is of type date" in said) is warned


def test_a_preview_reports_the_effect_of_expectations():
    counts = FlowCounts(
        rows_written=950,
        rows_dropped=30,
        rows_quarantined=20,
        expectations=(
            ExpectationCount("known", Action.DROP, 970, 30),
            ExpectationCount("late", Action.WARN, 1000, 0),
            ExpectationCount("sane", Action.QUARANTINE, 980, 20),
        ),
    )

    assert list(Preview(Rows((), ()), counts, partial=True, sampled=("bronze",)).notices()) == [
        "looked at the first 1000 rows: 950 would be written, 30 dropped, 20 quarantined",
        '30 rows violated "known" (drop)',
        '20 rows violated "sane" (quarantine)',
        'table "bronze" does not exist yet: this is computed from the first rows that it would have',
    ]
    assert list(Preview(Rows((), ()), FlowCounts(rows_written=3)).notices()) == []
