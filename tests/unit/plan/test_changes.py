"""The class of each change of a plan, what undoes it, and what is known of its cost."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from headrace.cli.terminal import folded
from headrace.errors import PipelineError
from headrace.graph.analysis import StatefulOperator
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import Mode
from headrace.graph.starts import Start, StartKind
from headrace.model.change_classes import ChangeClass
from headrace.model.datasets import Dataset, Kind
from headrace.model.location import Location
from headrace.model.names import QualifiedName
from headrace.model.type_changes import FieldChange
from headrace.plan.change_classes import below
from headrace.plan.change_work import with_changes
from headrace.plan.changes import UNDO, OldRows, Work
from headrace.plan.inactive import Inactive
from headrace.plan.renames import Rename, RenameKind
from headrace.plan.source_retention import Loss, Restart, SourceRetention
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange, TableStep, ViewChange, ViewStep

GOLDEN = Path(__file__).parent / "golden"
HERE = Location("transformations/a.py", 7)


@dataclass
class Deployed:
    """What flows did before, as the test says; all of them ran, with the code of now."""

    changed: set[str] = field(default_factory=set)
    new: set[str] = field(default_factory=set)
    inputs: dict[str, Work] = field(default_factory=dict)
    wrote: dict[str, OldRows] = field(default_factory=dict)
    retention: dict[str, tuple[SourceRetention, ...]] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)

    def has_run(self, flow):
        return flow.name not in self.new

    def has_new_code(self, flow):
        return flow.name in self.changed

    def input_of(self, flow, _inputs):
        return self.inputs.get(flow.name, Work())

    def written_by(self, flow):
        return self.wrote.get(flow.name, OldRows(None, None, 0, None))

    def source_retention(self, flow):
        return self.retention.get(flow.name, ())

    def core_seconds_per_row(self, flows):
        return {name: cost for name, cost in self.costs.items() if name in flows}


@pytest.fixture
def shop(make):
    """raw -> orders -> hours -> report, all but the last as streams; orders -> crm, a sink."""
    stream = {"mode": Mode.APPEND}
    graph = make.graph(
        make.flow("raw", external=("/in",), **stream),
        make.flow("orders", "~raw", **stream),
        make.flow("hours", "~orders", operators=(StatefulOperator("aggregate"),), **stream),
        make.flow("report", "hours"),
        make.flow("crm", "~orders", **stream),
    )
    sink = ResolvedDataset(Dataset(QualifiedName("crm"), Kind.SINK, HERE), make.schema("id integer"), "/crm")
    return replace(graph, datasets=(*(d for d in graph.datasets if str(d.name) != "crm"), sink))


def planned(graph: ResolvedGraph, tables=(), flows=(), deployed=None, **more) -> Plan:
    """A plan with these steps; the other flows are up to date."""
    given = {step.flow.name: step for step in flows}
    steps = tuple(given.get(f.name, FlowStep(f, Decision.UP_TO_DATE, "nothing new")) for f in graph.stored_flows)
    return with_changes(Plan(graph, tuple(tables), steps, **more), deployed or Deployed())


def started(graph, name, reason="3 new files", **more):
    return FlowStep(graph.by_flow[name], Decision.START, reason, **more)


def cleared(name, **more):
    return TableStep(QualifiedName(name), TableChange.RESET, "full refresh", **more)


def evolved(name, reason, **more):
    return TableStep(QualifiedName(name), TableChange.EVOLVE, reason, **more)


def classes(plan):
    return [(change.change_class.value, change.name) for change in plan.changes]


@pytest.fixture
def one_of_each(shop):
    """The steps of plans that have one change of one class each, by the class."""
    lost = PipelineError("FLOW.CHECKPOINT_LOST", flow="raw", name="raw", checkpoint="/c", otherwise="")
    gone = SourceRetention("raw", "the files in /in", unrecoverable="1 of 3 files that were read is missing")
    work = {"orders": Work(98_000, 1_200_000), "hours": Work(98_000, 1_200_000), "report": Work(24, 4000)}
    ran = Deployed(inputs=work, costs={"orders": 0.0004, "hours": 0.0004})
    wrote = {"hours": OldRows(24, (0, 41), 1, 40, ('table "orders": read through version 41 of 44',))}
    return {
        "blocked": {"flows": [FlowStep(shop.by_flow["raw"], Decision.FAIL, "its checkpoint is lost", error=lost)]},
        "destructive": {
            "tables": [cleared("raw", loses_rows=True, accepted=True)],
            "flows": [started(shop, "raw", "full refresh", reset=True)],
            "losses": (Loss(QualifiedName("raw"), 98_112, 3, (gone,)),),
        },
        "rebuild": {
            "tables": [cleared("orders")],
            "flows": [started(shop, "orders", "full refresh", reset=True)],
            "losses": (Loss(QualifiedName("orders"), 1200, 3),),
            "deployed": ran,
        },
        "restart": {
            "flows": [started(shop, "hours", restart=Restart(Start(StartKind.EARLIEST), ()))],
            "deployed": ran,
        },
        "redeliver": {
            "tables": [cleared("crm")],
            "flows": [started(shop, "crm", "full refresh", reset=True)],
            "deployed": Deployed(inputs={"crm": Work(7, 900)}),
        },
        "recompute": {
            "flows": [started(shop, "report", "its code, settings or input columns changed")],
            "deployed": replace(ran, changed={"report"}),
        },
        "forward_only": {
            "flows": [started(shop, "hours")],
            "deployed": replace(ran, changed={"hours"}, wrote=wrote),
        },
        "widen": {"tables": [evolved("orders", 'adds "note"', columns=("note",))]},
        "annotate": {"tables": [evolved("orders", "sets the comment", comment="Orders")]},
        "add": {"tables": [TableStep(QualifiedName("orders"), TableChange.CREATE, "new table")]},
        "rename": {"renames": (Rename(RenameKind.DATASET, "old", "raw", QualifiedName("raw"), QualifiedName("old")),)},
        "retire": {"inactive": (Inactive("gone", "/gone"),)},
        "data": {"flows": [started(shop, "raw")]},
    }


@pytest.mark.parametrize("name", [known.value for known in ChangeClass])
def test_the_plan_of_each_class(shop, one_of_each, name):
    says(f"class-{name.replace('_', '-')}", planned(shop, **one_of_each[name]).describe())


def test_every_class_is_found_worst_first(shop, one_of_each):
    steps = one_of_each

    found = {name: [c.change_class.value for c in planned(shop, **of).changes] for name, of in steps.items()}

    assert found == {name: [name] for name in steps}
    assert list(steps) == [known.value for known in ChangeClass]
    assert set(UNDO) == set(ChangeClass)
    shown = planned(shop, views=(ViewStep(QualifiedName("shown"), ViewChange.REPLACE, "its definition changed"),))
    assert classes(shown) == [("recompute", "shown")]


def test_changes_of_a_table_and_of_its_flow_are_two_and_the_worst_comes_first(shop):
    tables = [evolved("orders", "widens", widened=(FieldChange(("n",), "int", "bigint"),)), cleared("hours")]
    flows = [started(shop, "orders"), started(shop, "hours", reset=True), started(shop, "raw")]

    plan = planned(shop, tables, flows, Deployed(changed={"orders", "hours"}))

    assert classes(plan) == [("rebuild", "hours"), ("forward_only", "orders"), ("widen", "orders"), ("data", "raw")]


def test_a_view_whose_computation_evolves_its_table_is_one_change(shop):
    table = evolved("report", 'partitions by "day"')

    changed = planned(shop, [table], [started(shop, "report")], Deployed(changed={"report"}))
    same = planned(shop, [table], [started(shop, "report")])

    assert classes(changed) == [("recompute", "report")]
    assert ("recompute", "report") in classes(same)


def test_a_stream_that_reads_a_cleared_table_is_blocked_also_outside_of_the_selection(make):
    graph = make.graph(make.flow("up", mode=Mode.APPEND), make.flow("down", "~up", mode=Mode.APPEND))
    steps = (
        started(graph, "up", reset=True),
        FlowStep(graph.by_flow["down"], Decision.EXCLUDE, "not selected; reads up", is_stuck=True),
    )

    plan = planned(graph, [cleared("up")], steps)

    assert classes(plan) == [("blocked", "down"), ("rebuild", "up")]


def test_a_new_flow_of_a_table_is_added_and_a_once_flow_with_new_code_does_nothing(make):
    graph = make.graph(make.flow("t", mode=Mode.APPEND), make.flow("more", target="t", mode=Mode.APPEND))
    once = make.graph(make.flow("o", mode=Mode.ONCE))

    added = planned(graph, flows=[started(graph, "more")], deployed=Deployed(new={"more"}))
    again = planned(once, deployed=Deployed(changed={"o"}))

    assert (classes(added), classes(again)) == ([("add", "t (flow more)")], [])


def test_dependants_are_found_through_others(shop):
    assert list(map(str, below(shop, QualifiedName("raw")))) == ["orders", "hours", "report", "crm"]
    assert list(map(str, below(shop, QualifiedName("raw"), streamed=True))) == ["orders", "hours", "crm"]
    assert below(shop, QualifiedName("report")) == ()


def test_a_cost_is_estimated_from_rows_and_past_batches_and_never_invented(shop):
    tables, flows = [cleared("orders")], [started(shop, "orders", reset=True)]
    losses = (Loss(QualifiedName("orders"), 1200, 3),)
    inputs = {"orders": Work(98_000, 1_200_000)}

    def change(**known):
        return planned(shop, tables, flows, Deployed(**known), losses=losses).changes[0].to_json()

    known, no_cost, no_rows = change(inputs=inputs, costs={"orders": 0.0005}), change(inputs=inputs), change()

    assert (known["rows_cleared"], known["rows_read"], known["bytes_read"]) == (1203, 98_000, 1_200_000)
    assert known["core_seconds"] == pytest.approx(49)
    assert (no_cost["rows_read"], no_cost["core_seconds"]) == (98_000, None)
    assert (no_rows["rows_read"], no_rows["bytes_read"], no_rows["core_seconds"]) == (None, None, None)


def test_a_restart_reads_again_only_from_the_earliest_position(shop):
    def work(kind):
        step = started(shop, "orders", restart=Restart(Start(kind), ()))
        return planned(shop, flows=[step], deployed=Deployed(inputs={"orders": Work(10, 20)})).changes[0].work

    assert (work(StartKind.EARLIEST), work(StartKind.LATEST)) == (Work(10, 20), None)


@pytest.mark.parametrize(
    ("flow", "lost", "mend"),
    [
        ("orders", False, "headrace run --full-refresh orders,hours,crm"),
        ("orders", True, "headrace backfill orders --again"),
        ("hours", True, "headrace run --full-refresh hours"),
        ("crm", False, "headrace backfill crm --again"),
    ],
)
def test_rows_of_older_code_come_with_the_command_that_mends_them(shop, flow, lost, mend):
    gone = SourceRetention(flow, "the files in /in", unrecoverable="1 of 3 files is missing")
    deployed = Deployed(
        changed={flow},
        wrote={flow: OldRows(12, (0, 4), 0, 3)},
        retention={flow: (gone,)} if lost else {},
    )

    (change,) = planned(shop, flows=[started(shop, flow)], deployed=deployed).changes

    assert change.old_rows.mend == mend
    assert ("1 of 3 files is missing" in change.old_rows.caution) == lost


def test_an_empty_table_has_nothing_to_mend(shop):
    deployed = Deployed(changed={"orders"}, wrote={"orders": OldRows(0, (0, 0), 0, None)})

    (change,) = planned(shop, flows=[started(shop, "orders")], deployed=deployed).changes

    assert change.old_rows.mend == ""


def test_a_plan_that_only_adds_or_reads_data_shows_no_changes(shop):
    new = TableStep(QualifiedName("orders"), TableChange.CREATE, "new table")

    plan = planned(shop, [new], [started(shop, "raw")])

    assert classes(plan) == [("add", "orders"), ("data", "raw")]
    assert "worst first" not in plan.describe()


def test_the_texts_of_all_classes(shop):
    lost = PipelineError("FLOW.CHECKPOINT_LOST", flow="crm", name="crm", checkpoint="/c", otherwise="")
    gone = SourceRetention("raw", "the files in /in", unrecoverable="1 of 3 files that were read is missing")
    plan = planned(
        shop,
        [
            cleared("raw", loses_rows=True, accepted=True),
            evolved("orders", 'adds "note", widens "n" from int to bigint', columns=("note",)),
            evolved("report", "sets the comment", comment="Hours"),
        ],
        [
            started(shop, "raw", "full refresh", reset=True),
            started(shop, "orders"),
            started(shop, "hours", restart=Restart(Start(StartKind.EARLIEST), ())),
            started(shop, "report", "its code, settings or input columns changed"),
            FlowStep(shop.by_flow["crm"], Decision.FAIL, "its checkpoint is lost", error=lost),
        ],
        Deployed(
            changed={"orders", "report"},
            inputs={
                "raw": Work(None, 34_000_000),
                "hours": Work(98_000, 1_200_000),
                "report": Work(24, 4000),
            },
            wrote={"orders": OldRows(98_000, (0, 41), 1, 40, ('table "raw": read through version 41 of 44',))},
            costs={"hours": 0.0004, "report": 0.02},
            retention={"raw": (gone,)},
        ),
        losses=(Loss(QualifiedName("raw"), 98_112, 3, (gone,)),),
        renames=(Rename(RenameKind.DATASET, "old", "raw", QualifiedName("raw"), QualifiedName("old")),),
        inactive=(Inactive("gone", "/gone"), Inactive("orders", "/o", "north")),
    )
    other = planned(shop, [cleared("crm")], [started(shop, "crm", reset=True)], Deployed(inputs={"crm": Work(7, 900)}))

    says("changes", plan.describe())
    says("changes-80", folded(plan.describe(), 80))
    says("changes-json", json.dumps([c.to_json() for c in (*plan.changes, *other.changes)], indent=1))
    says("changes-redeliver", other.describe())


def says(name, text):
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        file.write_text(f"{text}\n", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == f"{text}\n"
