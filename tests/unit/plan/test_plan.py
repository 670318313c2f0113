"""What an update would do and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.call_counts import calls_of

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.scd_spec import ScdSpec, ScdType
from headrace.delta_log.table_layout import TableLayout
from headrace.errors import Problems
from headrace.graph.analysis import StatefulOperator
from headrace.graph.resolved_flows import Mode, StateSignature
from headrace.graph.select import Selected
from headrace.graph.starts import Start, StartKind
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.plan.agreement import Disagreement
from headrace.plan.backfills import Backfill, TableRange
from headrace.plan.build import build_plan
from headrace.plan.change_work import with_changes
from headrace.plan.deployed import NewInput
from headrace.plan.notices import without_effect
from headrace.plan.refused import RefusedPlan
from headrace.plan.renames import Rename, RenameKind
from headrace.plan.steps import Decision
from headrace.plan.unavailable_sources import unavailable_steps
from headrace.project.update.initial_events import plan_warnings

A = QualifiedName("a")
REST = NewInput(is_due=False, reason="nothing new")


@dataclass
class Deployed:
    """What lies in the storage, as the test says."""

    tables: dict[str, Any] = field(default_factory=dict)
    fresh: dict[str, str] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    interrupted: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    did_run: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, TableLayout] = field(default_factory=dict)
    made: dict[str, StateSignature] = field(default_factory=dict)

    def table(self, name):
        return self.tables.get(str(name))

    def layout(self, name):
        return self.layouts.get(str(name), TableLayout())

    def detect_changes(self, _graph, flow):
        return NewInput(is_due=True, reason=self.fresh[flow.name]) if flow.name in self.fresh else REST

    def is_modified(self, flow):
        return flow.name in self.edited

    def is_resetting(self, flow):
        return flow.name in self.interrupted

    def is_reset_accepted(self, flow):
        return flow.name in self.settled

    def has_run(self, flow):
        return flow.name in self.did_run

    def state_signature(self, flow):
        return self.made.get(flow.name)

    def pending_backfill(self, _flow):
        return None

    def merge_keys(self, _name):
        return None

    def disagreement(self, flow):
        lost = self.lost.get(flow.name)
        return None if lost is None else Disagreement("FLOW.CHECKPOINT_LOST", {"checkpoint": lost})


@pytest.fixture
def planned(past):
    def plan(graph, state, full=(), only=None):
        names = frozenset(d.name for d in graph.datasets if d.kind.stored)
        chosen = names if only is None else frozenset(map(QualifiedName, only))
        return build_plan(graph, state, past(), Selected(chosen, frozenset(map(QualifiedName, full))))

    return plan


@pytest.fixture
def there(make):
    return lambda *names, **table: {name: make.table(make.schema("id integer"), **table) for name in names}


def reasons(plan):
    return {step.flow.name: (step.decision.value, step.reason) for step in plan.flows}


def test_first_update_creates_all_tables_and_starts_all_flows(planned, make):
    plan = planned(make.graph(make.flow("a"), make.flow("b", "a")), Deployed())

    assert reasons(plan) == {"a": ("start", "first run"), "b": ("start", "first run")}
    assert [step.describe() for step in plan.tables] == ["create     a: new table", "create     b: new table"]


def test_plan_is_empty_when_nothing_is_new(planned, make, there):
    plan = planned(make.graph(make.flow("a"), make.flow("b", "a")), Deployed(there("a", "b")))

    assert plan.empty
    assert plan.describe().endswith("nothing to do")


def test_the_cost_of_a_plan_grows_linearly_with_the_number_of_flows(planned, make, there):
    def cost(flows):
        names = [f"t{number}" for number in range(flows)]
        graph = make.graph(*(make.flow(name, *names[max(at - 1, 0) : at]) for at, name in enumerate(names)))
        state = Deployed(there(*names))
        return calls_of(lambda: planned(graph, state).describe() + graph.describe() + graph.to_mermaid())

    assert cost(80) < 2.3 * cost(40)


def test_reader_starts_conditionally_if_its_input_is_updated_first(planned, make, there):
    graph = make.graph(make.flow("a"), make.flow("b", "a"), make.flow("c", "b"), make.flow("d"))

    plan = planned(graph, Deployed(there(*"abcd"), {"a": "its code changed"}))

    assert [step.conditional for step in plan.flows] == [False, True, True, False]
    assert reasons(plan)["c"] == ("start", 'reads "b", updated first')


def test_new_rows_in_a_static_input_do_not_start_a_stream(planned, make, there):
    graph = make.graph(make.flow("lookup"), make.flow("s", "lookup", "~feed", mode=Mode.APPEND), make.flow("feed"))

    plan = planned(graph, Deployed(there("lookup", "s", "feed"), {"lookup": "new rows"}))

    assert reasons(plan)["s"] == ("up to date", "nothing new")


def test_new_input_does_not_restart_a_once_flow(planned, make, there):
    graph = make.graph(make.flow("a"), make.flow("o", "a", mode=Mode.ONCE))

    plan = planned(graph, Deployed(there("a", "o"), {"a": "new rows"}))

    assert plan.step_for("o").decision is Decision.UP_TO_DATE


def test_unselected_flow_is_excluded_and_does_not_start_its_readers(planned, make, there):
    plan = planned(
        make.graph(make.flow("a"), make.flow("b", "a")), Deployed(there("a", "b"), {"a": "news"}), only=["b"]
    )

    assert reasons(plan) == {"a": ("exclude", "not selected"), "b": ("up to date", "nothing new")}


def test_full_refresh_clears_streaming_tables_and_recomputes_views(planned, make, there):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), make.flow("v"))

    plan = planned(graph, Deployed(there("s", "v")), full=["s", "v"])

    assert [(str(step.dataset), step.change.value) for step in plan.tables] == [("s", "reset")]
    assert [step.reset for step in plan.flows] == [True, True]


def test_what_is_refused_is_in_the_plan_with_the_way_on_and_so_is_the_rest(planned, make, there):
    """Guards that a refused change has a class, that its flow has no other, and that nothing else is hidden by it."""
    was, now = (StatefulOperator("aggregate", digest, f"aggregate by {digest}", "a string") for digest in "xy")
    graph = make.graph(
        make.flow("totals", operators=(now,), mode=Mode.APPEND), make.flow("rows"), make.flow("below", "totals")
    )
    state = Deployed(there("totals", "rows", "below"), {"rows": "3 new files", "totals": "1 new file"})
    state.made["totals"] = StateSignature(Mode.APPEND, (was,))

    with pytest.raises(RefusedPlan) as refused:
        planned(graph, state)

    plan = with_changes(refused.value.plan, Nothing())
    found = [(change.change_class.value, change.name, change.downstream) for change in plan.changes]
    assert found == [("blocked", "totals", ("below",)), ("data", "rows", ())]
    assert [error.code for error in refused.value] == [plan.changes[0].error.code] == ["FLOW.STATE_CHANGED"]
    assert "to continue: " in plan.describe()
    assert "headrace run --full-refresh totals" in plan.changes[0].way_on
    assert plan.step_for("totals").decision is Decision.FAIL


@dataclass
class Nothing:
    """Flows that ran, of which nothing else is known."""

    def has_run(self, _flow):
        return True

    def has_new_code(self, _flow):
        return False

    def core_seconds_per_row(self, _flows):
        return {}


def test_interrupted_reset_is_finished_first(planned, make, there):
    graph = make.graph(make.flow("s", mode=Mode.APPEND))

    plan = planned(graph, Deployed(there("s"), interrupted={"s"}))

    assert plan.table_step_for(QualifiedName("s")).describe() == "reset      s: finishes an interrupted full refresh"
    assert [str(loss.dataset) for loss in plan.losses] == ["s"]
    assert planned(graph, Deployed(there("s"), interrupted={"s"}), only=[]).empty


def test_table_not_yet_cleared_by_an_interrupted_full_refresh_can_be_kept(make, there, past):
    graph = make.graph(make.flow("s", mode=Mode.APPEND))
    chosen = Selected(frozenset({QualifiedName("s")}), frozenset(), starts={"s": Start(StartKind.LATEST)})

    kept = build_plan(graph, Deployed(there("s"), interrupted={"s"}), past(), chosen)

    assert (kept.tables, kept.step_for("s").restart.start) == ((), Start(StartKind.LATEST))
    with pytest.raises(Problems) as found:
        build_plan(graph, Deployed(there("s"), interrupted={"s"}, settled={"s"}), past(), chosen)
    assert [error.code for error in found.value] == ["RESET.CLEARED"]


def test_stream_that_reads_a_cleared_table_needs_a_full_refresh_too(planned, make, there):
    graph = make.graph(make.flow("up", mode=Mode.APPEND), make.flow("down", "~up", mode=Mode.APPEND))
    state = Deployed(there("up", "down"), did_run={"up", "down"})

    plan = planned(graph, state, full=["up"])
    alone = planned(graph, state, full=["up"], only=["up"])

    said = 'reads "up", cleared by this update; to continue, run: headrace run --full-refresh down'
    assert reasons(plan)["down"] == ("start", said)
    assert reasons(alone)["down"] == ("exclude", f"not selected; {said}")
    assert reasons(planned(graph, state, full=["up", "down"]))["down"] == ("start", "full refresh")


def test_streams_start_from_the_beginning_if_their_table_was_deleted(planned, make):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), make.flow("v"))

    plan = planned(graph, Deployed(did_run={"s", "v"}))

    assert [step.reset for step in plan.flows] == [True, False]


def test_lost_checkpoint_fails_the_flow_unless_the_table_is_cleared(planned, make, there):
    graph = make.graph(make.flow("s", mode=Mode.APPEND))
    state = Deployed(there("s"), lost={"s": "/checkpoints/s"})

    (step,) = planned(graph, state).flows

    assert (step.decision, step.error.code) == (Decision.FAIL, "FLOW.CHECKPOINT_LOST")
    assert step.error.hint.endswith("read only new data: headrace run --reset-checkpoint s=latest")
    assert planned(graph, state, full=["s"]).flows[0].reset


def test_new_column_is_added_to_a_table_that_keeps_its_rows(planned, make, there):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), make.flow("v"), schema="id integer, more string")

    plan = planned(graph, Deployed(there("s", "v")))

    assert [(str(step.dataset), step.columns) for step in plan.tables] == [("s", ("more",))]
    assert reasons(plan)["s"] == ("start", 'adds "more"')


@pytest.mark.parametrize(
    ("declared", "table", "code"),
    [
        ({"schema": "id string"}, {}, "TABLE.TYPE_CHANGED"),
        ({"partition_by": ("id",)}, {}, "TABLE.PARTITIONS_CHANGED"),
        ({}, {"partition_by": ("id",)}, "TABLE.PARTITIONS_CHANGED"),
    ],
)
def test_incompatible_change_is_rejected_unless_the_table_is_cleared(planned, make, there, declared, table, code):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), **declared)
    state = Deployed(there("s", **table))

    with pytest.raises(Problems) as found:
        planned(graph, state)

    assert [error.code for error in found.value] == [code]
    assert [step.change.value for step in planned(graph, state, full=["s"]).tables] == ["reset"]


def test_changed_properties_and_comment_are_applied_to_the_table(planned, make, there):
    graph = make.graph(make.flow("v"), comment="new", properties={"a": "1", "b": "2"})

    (step,) = planned(graph, Deployed(there("v", comment="old", properties={"a": "1"}))).tables

    assert (step.properties, step.comment) == ((("b", "2"),), "new")
    assert step.reason == 'sets property "b", sets the comment'


def test_protocol_properties_are_compared_with_the_table_protocol(planned, make, there):
    declared = {"delta.feature.timestampNtz": "supported", "delta.minWriterVersion": "7", "delta.appendonly": "true"}
    graph = make.graph(make.flow("v"), properties=declared)
    tables = there("v", properties={"delta.appendOnly": "true"})

    met = Deployed(tables, layouts={"v": TableLayout(features=frozenset({"timestampntz"}), min_writer=7)})

    assert planned(graph, met).empty
    assert [key for key, _ in planned(graph, Deployed(tables)).tables[0].properties] == [
        "delta.feature.timestampNtz",
        "delta.minWriterVersion",
    ]


def test_changed_clustering_is_applied_if_the_current_one_is_known(planned, make, there):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), make.flow("v"), cluster_by=("id",))
    layouts = {"s": TableLayout(cluster_by=("other",)), "v": TableLayout(cluster_by=None)}

    (step,) = planned(graph, Deployed(there("s", "v"), layouts=layouts)).tables

    assert (str(step.dataset), step.reason, step.cluster_by) == ("s", 'clusters by "id"', ("id",))


def test_clustering_that_is_no_longer_declared_is_removed(planned, make, there):
    state = Deployed(there("v"), layouts={"v": TableLayout(cluster_by=("id",))})

    (step,) = planned(make.graph(make.flow("v")), state).tables

    assert (step.reason, step.cluster_by) == ("clusters by nothing", ())


def test_clustering_change_is_reported_by_the_update_that_applies_it(planned, make, there):
    layouts = {"s": TableLayout(cluster_by=("other",))}
    changed = planned(
        make.graph(make.flow("s", mode=Mode.APPEND), cluster_by=("id",)), Deployed(there("s"), layouts=layouts)
    )
    same = planned(
        make.graph(make.flow("s", mode=Mode.APPEND), cluster_by=("OTHER",)), Deployed(there("s"), layouts=layouts)
    )

    (warned,) = plan_warnings(changed)

    assert (warned.code, warned.dataset) == ("TABLE.CLUSTERING_CHANGED", "s")
    assert 'is now clustered by "id"' in warned.message
    assert list(plan_warnings(same)) == []


def test_view_is_recomputed_when_its_partitions_change(planned, make, there):
    graph = make.graph(make.flow("v"), partition_by=("id",))

    plan = planned(graph, Deployed(there("v")))

    assert reasons(plan)["v"] == ("start", 'partitions by "id"')
    assert planned(graph, Deployed(there("v", partition_by=("ID",)))).empty


def test_complete_mode_stream_is_not_started_for_a_schema_or_partition_change(planned, make, there):
    graph = make.graph(make.flow("c", mode=Mode.COMPLETE), partition_by=("id",))
    declared = make.graph(make.flow("c", mode=Mode.COMPLETE), schema="id integer, later string")
    before = declared.datasets[0]
    dataset = replace(before, dataset=replace(before.dataset, schema="id INT, later STRING"))

    with pytest.raises(Problems) as found:
        planned(graph, Deployed(there("c")))

    assert [error.code for error in found.value] == ["TABLE.PARTITIONS_CHANGED"]
    assert planned(replace(declared, datasets=(dataset,)), Deployed(there("c"))).empty


def test_lost_checkpoint_of_a_complete_mode_stream_suggests_no_checkpoint_reset(planned, make, there):
    graph = make.graph(make.flow("c", mode=Mode.COMPLETE))

    (step,) = planned(graph, Deployed(there("c"), lost={"c": "/checkpoints/c"})).flows

    assert "--reset-checkpoint" not in step.error.hint


def test_view_is_recomputed_when_another_column_is_declared(planned, make, there):
    graph = make.graph(make.flow("v"), schema="id integer, later string")
    dataset = replace(graph.datasets[0], dataset=replace(graph.datasets[0].dataset, schema="id INT, later STRING"))

    plan = planned(replace(graph, datasets=(dataset,)), Deployed(there("v")))

    assert (reasons(plan)["v"], plan.tables[0].columns) == (("start", 'adds "later"'), ())


def test_flow_is_rejected_if_its_input_does_not_exist_and_is_not_selected(planned, make, there):
    graph = make.graph(make.flow("bronze", mode=Mode.APPEND), make.flow("silver", "~bronze", mode=Mode.APPEND))

    with pytest.raises(Problems) as found:
        planned(graph, Deployed(), only=["silver"])

    assert [(error.code, str(error.params["name"])) for error in found.value] == [("PLAN.INPUT_MISSING", "bronze")]
    assert reasons(planned(graph, Deployed(there("bronze")), only=["silver"]))["silver"] == ("start", "first run")


def test_vendor_settings_without_effect_are_reported(make):
    graph = make.graph(make.flow("v"), properties={"pipelines.reset.allowed": "false", "pipelines.channel": "PREVIEW"})
    slow = replace(
        graph.flows[0],
        flow=replace(graph.flows[0].flow, spark_conf={"pipelines.trigger.interval": "1 day"}),
    )

    assert [notice.message for notice in without_effect(replace(graph, flows=(slow,)))] == [
        'table property "pipelines.channel" of "v" has no effect: the installed version is used',
    ]


@pytest.mark.parametrize("bitemporal", [False, True])
def test_tombstone_retention_has_no_effect_on_bitemporal_tables(make, bitemporal):
    shape = ScdSpec(("id",), ("id",), ScdType.TWO, bitemporal=bitemporal)
    feed = ChangeFeed(shape, "version", '"integer"', "{}", derivable_from_rows=True, derivable_in_merge=True)
    merging = make.flow("users", mode=Mode.MERGE, feed=feed)
    graph = make.graph(merging, properties={"pipelines.cdc.tombstoneGCThresholdInSeconds": "60"})

    assert len(list(without_effect(graph))) == bitemporal


def test_plan_has_the_same_steps_in_json_and_text(planned, make, there):
    plan = planned(make.graph(make.flow("a"), make.flow("b")), Deployed(there("a"), {"a": "news"}))

    said = plan.to_json()
    assert (said["empty"], said["tables"][0]["change"]) == (False, "create")
    assert [(flow["flow"], flow["decision"], flow["reason"]) for flow in said["flows"]] == [
        ("a", "start", "news"),
        ("b", "start", "first run"),
    ]
    assert plan.describe().splitlines() == [
        "create     b: new table",
        "start      a: news",
        "start      b: first run",
    ]
    assert not replace(plan, tables=(), flows=()).describe().startswith("create")


def test_plan_json_contains_all_changes(planned, make, there):
    graph = make.graph(make.flow("s", mode=Mode.APPEND), comment="new", cluster_by=("id",))
    ranges = (TableRange(QualifiedName("up"), "i", 0, 3, whole=True),)
    plan = planned(graph, Deployed(there("s"), layouts={"s": TableLayout(cluster_by=())}))
    plan = replace(plan, flows=(replace(plan.flows[0], backfill=Backfill(1, ranges, stream_starts_after=True)),))

    said = plan.to_json()

    assert said["tables"][0] == {
        "dataset": "s",
        "change": "evolve",
        "reason": 'sets the comment, clusters by "id"',
        "columns": [],
        "widened": [],
        "relaxed": [],
        "properties": {},
        "comment": "new",
        "column_comments": {},
        "cluster_by": ["id"],
        "loses_rows": False,
    }
    assert said["flows"][0]["load"] == {
        "epoch": -1,
        "ranges": ['all rows at version 3 of table "up"'],
        "stream_begins_behind": True,
    }


def test_plan_with_only_renames_is_not_empty(planned, make, there):
    plan = planned(make.graph(make.flow("new")), Deployed(there("new")))
    renamed = Rename(RenameKind.DATASET, "old", "new", QualifiedName("new"), QualifiedName("old"))

    plan = replace(plan, renames=(renamed,))

    assert (plan.empty, plan.to_json()["empty"], "nothing to do" in plan.describe()) == (False, False, False)


def test_unavailable_source_fails_its_flow_and_skips_the_flows_that_read_it(make):
    blocked = 'input "a" was not updated'
    unavailable = (
        make.unavailable("a"),
        make.unavailable("v", Kind.PERSISTED_VIEW, blocked=blocked),
        make.unavailable("t", Kind.TEMPORARY_VIEW),
    )
    graph = make.graph(unavailable=unavailable)

    def steps(*names):
        chosen = Selected(frozenset(map(QualifiedName, names)), frozenset())
        return {step.flow.name: (step.decision.value, step.reason) for step in unavailable_steps(graph, chosen)}

    down = unavailable[0].reason
    assert steps("a", "v") == {"a": ("fail", down), "v": ("skip", blocked)}
    # Somebody has to say what is the matter.
    assert steps("v") == {"a": ("exclude", "not selected"), "v": ("fail", blocked)}


def test_table_is_not_cleared_if_the_source_of_its_reader_is_unavailable(make, past, there):
    graph = make.graph(make.flow("a", mode=Mode.APPEND), unavailable=(make.unavailable("b"), make.unavailable("c")))
    state, read = Deployed(there("a")), past(read_by={"b": {"a"}, "c": {"a"}})

    with pytest.raises(Problems) as found:
        build_plan(graph, state, read, Selected(frozenset({A}), frozenset({A})))
    refreshed = build_plan(graph, state, read, Selected(frozenset({A}), frozenset()))
    cleared = build_plan(graph, state, past(), Selected(frozenset({A}), frozenset({A})))

    assert [problem.code for problem in found.value] == ["JDBC.UNREACHABLE"]
    assert [step.change for step in refreshed.tables] == []
    assert [step.change.value for step in cleared.tables] == ["reset"]
    # An earlier full refresh that was interrupted is finished.
    state.interrupted |= {"a"}
    state.settled |= {"a"}
    finished = build_plan(graph, state, read, Selected(frozenset({A}), frozenset()))
    assert [step.change.value for step in finished.tables] == ["reset"]
