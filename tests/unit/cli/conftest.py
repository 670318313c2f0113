from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.test_plan_files import PLAN

from headrace.assistant.doctor.checklist import Checklist, Result, Status
from headrace.assistant.doctor.criteria import criteria
from headrace.assistant.doctor.diagnose import Diagnosis
from headrace.cli.main import call
from headrace.events.types import BatchDone, Event, FlowStateChanged, UpdateCreated, UpdateStateChanged
from headrace.model.erasure import Erasure, PlaceKind, SearchedPlace
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.maintenance import MaintenanceRequest, Task
from headrace.model.outcome import FlowCounts, FlowOutcome, FlowState, Outcome, UpdateCause, UpdateState
from headrace.model.preview import Preview
from headrace.model.replay_preview import ReplayPreview
from headrace.model.rows import Rows
from headrace.model.state_rows import StateRequest, StateRows
from headrace.model.table_diff import DiffRequest, DiffSide, TableDiff
from headrace.plan.code_diff import CodeDiff, FlowDiff
from headrace.plan.maintenance import Action as MaintenanceAction
from headrace.plan.maintenance import ActionState, Size
from headrace.plan.plan_file import PlanFile
from headrace.plan.steps import Plan

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
COUNTS = FlowCounts(90, 4, 6, (ExpectationCount("valid", Action.DROP, 96, 4),))
ERROR = {
    "code": "FLOW.FAILED",
    "message": "it broke",
    "detail": "row 7\n" * 60,
    "hint": "mend it",
    "location": {"file": "transformations/silver.py", "line": 12},
    "params": {},
}


@dataclass
class Said:
    text: str
    value: Any

    def describe(self) -> str:
        return self.text

    def to_mermaid(self) -> str:
        return f"flowchart LR {self.text}"

    def to_json(self) -> Any:
        return self.value


PLACES = (SearchedPlace(PlaceKind.TABLE, "orders", 2, 1, 3), SearchedPlace(PlaceKind.EVENT_LOG, "events"))


@dataclass
class FakeCheckpoints:
    project: FakeProject

    def state(self, request: StateRequest, session: Any) -> StateRows:
        assert session == self.project.session
        self.project._ask("state", request)
        return StateRows(request.name, 3, "operator 0", Rows(("product", "sum"), (("tea", 2),)), has_more=True)


@dataclass
class FakeDoctor:
    project: FakeProject

    def diagnose(self, name: str | None) -> Diagnosis:
        self.project._ask("diagnose", name)
        return Diagnosis(())

    def check(self) -> Checklist:
        self.project._ask("check")
        return Checklist((Result(criteria()["lag"], Status.PASS, "nothing is unread", None),))


@dataclass
class FakeProject:
    """Answers every verb with what the test put there, and remembers what it was asked."""

    state: UpdateState = UpdateState.COMPLETED
    error: Exception | None = None
    asked: list[Any] = field(default_factory=list)
    secret: str = ""
    continuous: bool = False
    maintenance_state: ActionState = ActionState.SKIPPED
    found: TableDiff = field(
        default_factory=lambda: TableDiff("orders", DiffSide("version 1", 1), DiffSide("version 2", 2))
    )

    def _ask(self, *what: Any) -> None:
        self.asked.append(what)
        if self.error:
            raise self.error

    def redact(self, text: str) -> str:
        return text.replace(self.secret, "***") if self.secret else text

    def validate(self) -> Said:
        self._ask("validate")
        return Said("a graph", {"datasets": [], "flows": []})

    graph = validate

    def plan(self, selection: Any) -> Said:
        self._ask("plan", selection)
        return Said("a plan", {"empty": True})

    def run(
        self,
        refresh: Sequence[str] = (),
        full_refresh: Sequence[str] = (),
        *,
        full_refresh_all: bool = False,
        exclude: Sequence[str] = (),
        reset_checkpoint: Sequence[str] = (),
        accept_data_loss: bool = False,
        continuous: bool | None = None,
        cause: UpdateCause = UpdateCause.USER_ACTION,
        request_id: str | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        more = (tuple(reset_checkpoint), accept_data_loss, continuous)
        more += () if cause is UpdateCause.USER_ACTION else (cause,)
        more += () if request_id is None else (request_id,)
        left_out = (tuple(exclude),) if exclude else ()
        self._ask("run", refresh, full_refresh, full_refresh_all, *left_out, *(more if any(more) else ()))
        assert on_event is not None
        for event in (
            UpdateCreated("USER_ACTION"),
            FlowStateChanged("orders", "orders", FlowState.RUNNING, attempt=1),
            BatchDone("orders", "orders", 0, 0, COUNTS),
            FlowStateChanged("orders", "orders", FlowState.COMPLETED, attempt=1, duration_s=1.5),
            UpdateStateChanged(self.state),
        ):
            on_event(event)
        return outcome(self.state)

    def replay(self, wanted: Any, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        return self.backfill(wanted, on_event=on_event)

    def preview_replay(self, wanted: Any) -> ReplayPreview:
        self._ask("preview_replay", wanted)
        counts = (ExpectationCount("positive", Action.QUARANTINE, 3, 1), ExpectationCount("known", Action.DROP, 4, 0))
        return ReplayPreview("orders", FlowCounts(3, 0, 1, counts))

    def backfill(self, wanted: Any, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        self._ask("backfill", wanted)
        assert on_event is not None
        return outcome(self.state)

    def sql(
        self,
        query: str,
        *,
        write: bool = False,
        private: bool = False,
        also: Sequence[str] = (),
        limit: int | None = None,
    ) -> Rows:
        more = (*(("private",) if private else ()), *also, *(() if limit is None else (limit,)))
        self._ask("sql", query, write, *more)
        return Rows(("n", "s"), ((1, None), (20, "x\x1b[31m")))

    @property
    def changes(self) -> FakeProject:
        return self

    def file_of(self, plan: Any, selection: Any, made_by: str | None = None) -> PlanFile:
        del plan, selection, made_by
        self._ask("file_of")
        return PLAN

    def diff(self, plan: Any) -> CodeDiff:
        del plan
        return CodeDiff((FlowDiff("orders", "orders", "--- deployed/a.py\n+++ now/a.py\n-x = 1\n+x = 2"),), {})

    def apply(
        self,
        plan_file: PlanFile,
        name: str,
        *,
        on_event: Callable[[Event], None] | None = None,
        savepoint: bool = True,
    ) -> Outcome:
        self._ask("apply", plan_file.plan_id, name, *(() if savepoint else ("no savepoint",)))
        assert on_event is not None
        return outcome(self.state)

    @property
    def erasures(self) -> FakeProject:
        return self

    def find(self, request: Any) -> Erasure:
        self._ask("find", request)
        return Erasure(request.columns, is_done=False, keeps_files=False, places=PLACES)

    def erase(self, request: Any) -> Erasure:
        self._ask("erase", request)
        return Erasure(request.columns, is_done=True, keeps_files=request.keep_files, places=PLACES)

    @property
    def diffs(self) -> FakeProject:
        return self

    def compare(self, request: DiffRequest) -> TableDiff:
        self._ask("diff", request)
        return self.found

    def preview(self, name: str, rows: int = 20) -> Preview:
        self._ask("preview", name, rows)
        return Preview(Rows(("n",), ()), FlowCounts())

    def explain(self, name: str) -> Said:
        self._ask("explain", name)
        return Said(f"about {name}", {"name": name})

    def checkpoints(self) -> FakeCheckpoints:
        return FakeCheckpoints(self)

    def doctor(self) -> FakeDoctor:
        return FakeDoctor(self)

    def session(self) -> None:
        raise AssertionError

    def maintain(self, request: MaintenanceRequest, plan: Callable[[], Plan]) -> tuple[MaintenanceAction, ...]:
        del plan
        self._ask("maintain", request)
        sizes = Size(300, 9_000_000), Size(2, 8_000_000)
        return (
            MaintenanceAction("orders", "/s", Task.COMPACT, ActionState.PLANNED, "300 small files", *sizes),
            MaintenanceAction("orders", "/s", Task.VACUUM, self.maintenance_state, "busy\x1b[31m", sizes[0]),
        )

    def quarantine_list(self) -> list[tuple[str, int, Mapping[str, int]]]:
        self._ask("quarantine_list")
        return [("orders", 6, {"valid": 5, "known": 2})]

    def quarantine_show(self, name: str, rows: int) -> Rows:
        self._ask("quarantine_show", name, rows)
        return Rows(("row",), ())


def outcome(state: UpdateState, flows: int = 1) -> Outcome:
    return Outcome(
        update_id="u1",
        state=state,
        cause="USER_ACTION",
        started_at=NOON,
        ended_at=NOON + timedelta(seconds=2),
        flows=tuple(
            FlowOutcome(f"orders{n or ''}", "orders", FlowState.COMPLETED, None, COUNTS, 1, 1.5) for n in range(flows)
        ),
        error=ERROR if state is UpdateState.FAILED else None,
    )


@dataclass
class Cli:
    project: FakeProject
    opened: list[Any]
    capture: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> tuple[int, str, str]:
        code = call(words, self.open)
        out, err = self.capture.readouterr()
        return code, out, err

    def open(self, directory: Path | None, *, profile: str | None, configuration: Mapping[str, str]) -> FakeProject:
        self.opened.append((directory, profile, dict(configuration)))
        return self.project


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(FakeProject(), [], capsys)
