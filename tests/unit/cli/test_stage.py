"""What the verbs on stages ask of the project, and what they print."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from tests.unit.cli.conftest import NOON

from headrace.errors import PipelineError
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.outcome import Outcome, UpdateState
from headrace.model.table_diff import DiffSide, RowCounts, TableDiff
from headrace.plan.plan_file import PlanFile
from headrace.project.staging.build import StageRequest
from headrace.project.staging.compare import ExpectationPair, StagedTable
from headrace.project.staging.progress import SourceProgress, StagedRows
from headrace.project.staging.swap_document import swap_document
from headrace.project.staging.swap_plan import SwapPlan, TableChange
from headrace.project.staging.swaps import Swapped, SwapRequest
from headrace.storage.stages.manifest import FlowStep, FlowToSwap, Stage, Swap, TableStep

STAGE = Stage("3fa2", "orders", ("orders", "revenue"), (), ('sink "out" is left out',), 1.5e9, "anna", "shop", "digest")
COUNTS = [ExpectationCount("positive", Action.QUARANTINE, *counts) for counts in ((9, 1), (7, 3))]
TABLE = StagedTable(
    "orders",
    TableDiff(
        "orders",
        DiffSide("production version 4", 4, rows=9),
        DiffSide("stage version 1", 1, rows=7),
        rows=RowCounts(7, 0, 2, 0),
    ),
    (ExpectationPair("positive", *COUNTS), ExpectationPair("known", None, COUNTS[1])),
    (1, 3),
)
PLAN = SwapPlan(
    Swap("id", "orders", (), (FlowToSwap("ship", "out", "f", FlowStep.MOVED, 1, 2),)),
    (TableChange("orders", TableStep.REPLACED, 4, 1, 9, 7),),
    notes=("a note",),
)


class FakeStages:
    """The stages of a project, as the test has them."""

    def __init__(self, outcome=UpdateState.COMPLETED, plan=PLAN):
        self.asked = []
        self.state, self.found = outcome, plan
        self.swaps = SimpleNamespace(plan=lambda _: self.found, swap=self._swap, plan_file=self._plan_file)

    def all(self):
        return (STAGE,)

    def problems(self):
        return (PipelineError("STAGE.UNREADABLE", file="bad.json", reason="it is torn"),)

    def find(self, name):
        self.asked.append(name)
        return STAGE

    def create(self, request, *, on_event):
        assert on_event is not None
        self.asked.append(request)
        return STAGE, Outcome("u", self.state, "USER_ACTION", NOON, NOON, ())

    def run(self, name, *, on_event):
        return self.create(name, on_event=on_event)

    def rows(self, name):
        assert name == STAGE.name
        return (StagedRows("orders", 7, 9), StagedRows("revenue", None, 3))

    def progress(self, name):
        assert name == STAGE.name
        return (SourceProgress("orders", "files of Auto Loader", "2 files read", "3 files read"),)

    def compare(self, name, key, examples):
        self.asked.append((name, key, examples))
        return iter((TABLE,))

    def drop(self, name):
        return self.find(name)

    def _plan_file(self, name, *, accept_data_loss):
        self.asked.append((name, accept_data_loss))
        return swap_document(STAGE, PLAN, "anna", NOON, accept_data_loss=accept_data_loss)

    def _swap(self, request):
        self.asked.append(request)
        return Swapped(self.found)


@pytest.fixture
def stages(cli):
    cli.project.stages = FakeStages()
    return cli.project.stages


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["create", "orders+,b", "c", "--exclude", "x"], StageRequest(("orders+", "b", "c"), ("x",))),
        (
            ["create", "orders", "--name", "v2", "--accept-data-loss"],
            StageRequest(("orders",), (), "v2", accept_data_loss=True),
        ),
        (["run", "orders"], "orders"),
        (["compare", "orders", "--key", "id", "--rows", "0"], ("orders", ("id",), 0)),
        (["swap", "orders", "--no-savepoint"], SwapRequest("orders", savepoint=False)),
        (["drop", "orders"], "orders"),
    ],
)
def test_the_words_make_the_request(cli, stages, words, asked):
    cli("stage", *words)

    assert stages.asked == [asked]


def test_a_comparison_shows_rows_expectations_and_the_quarantine_and_exits_with_1(cli, stages):
    code, out, _ = cli("stage", "compare", "orders")

    assert code == 1
    assert out.splitlines()[:3] == ["orders", "  - production version 4  9 rows", "  + stage version 1       7 rows"]
    assert out.splitlines()[-6:] == [
        "expectation  passed  in stage  failed  in stage",
        "-----------  ------  --------  ------  --------",
        "positive     9              7  1              3",
        "known                       7                 3",
        "",
        "quarantined rows: 1 in production, 3 in the stage",
    ]


def test_a_swap_is_written_as_a_plan_approved_and_applied(cli, stages, tmp_path):
    """Guards that `apply` swaps the stage of such a plan, with its consents, and runs no update."""
    written, out, _ = cli("stage", "swap", "orders", "--accept-data-loss", "--out", "swap.plan.json")
    approved, said, _ = cli("approve", "swap.plan.json", "--as", "bob")
    applied, _, _ = cli("apply", "swap.plan.json", "--no-savepoint")

    assert (written, approved, applied) == (0, 0, 0)
    assert "swap.plan.json, valid until" in out
    assert "changes: rebuild" in said
    (asked, request) = stages.asked
    assert asked == ("orders", True)
    plan = PlanFile.parse((tmp_path / "swap.plan.json").read_text(), "swap.plan.json")
    assert request == SwapRequest.of(plan, "swap.plan.json", savepoint=False)
    assert (request.stage, request.accept_data_loss, len(plan.approvals)) == ("orders", True, 1)
    assert cli.project.asked == []


def test_a_dry_run_shows_the_steps_and_exits_with_1_if_they_are_not_possible(cli, stages):
    code, out, _ = cli("stage", "swap", "orders", "--dry-run", "--output", "json")
    stages.found = SwapPlan(PLAN.swap, (), (PipelineError("STAGE.OTHER_CODE", stage="orders"),))
    refused, text, _ = cli("stage", "swap", "orders", "--dry-run")

    assert (code, refused, stages.asked) == (0, 1, [])
    assert json.loads(out)["flows"] == [{"name": "ship", "dataset": "out", "step": "moved", "epoch": 2}]
    assert "STAGE.OTHER_CODE" in text
    assert text.endswith("nothing was written\n")


def test_lists_and_shows_stages_and_names_what_cannot_be_read(cli, stages):
    _, listed, _ = cli("stage", "list")
    _, shown, _ = cli("stage", "show", "orders", "--output", "json")

    assert "orders, revenue" in listed
    assert "bad.json" in listed
    assert json.loads(shown)["tables"][1] == {"dataset": "revenue", "stage": None, "production": 3}


def test_a_build_that_fails_says_how_to_go_on(cli, stages):
    stages.state = UpdateState.FAILED

    code, out, _ = cli("stage", "create", "orders")

    assert code == 1
    assert "headrace stage run orders" in " ".join(out.split())
