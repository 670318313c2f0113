"""What terminals of 80 and 120 columns show, one file each; ``HEADRACE_GOLDEN=rewrite`` writes them anew."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from tests.tiers import examples

from headrace.alerts.alert import Alert, AlertState
from headrace.alerts.store import StoredAlerts, write_alerts
from headrace.assistant.doctor.checklist import Checklist, Result, Status
from headrace.assistant.doctor.criteria import criteria
from headrace.assistant.doctor.diagnose import Diagnosis
from headrace.assistant.doctor.facts import Unread
from headrace.assistant.doctor.findings import Edit, found
from headrace.cli.checkpoints import _COLUMNS
from headrace.cli.live_display import LiveTable
from headrace.cli.main import call
from headrace.cli.status import _text_line
from headrace.cli.summary import outcome_text
from headrace.cli.tables import text_table
from headrace.cli.terminal import folded, shortened
from headrace.cli.verbs import VERBS, load_verb
from headrace.errors import PipelineError, Problems
from headrace.events.types import (
    BatchDone,
    BatchRunning,
    Event,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
)
from headrace.model.alert_rules import Severity
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.location import Location
from headrace.model.outcome import (
    BatchTasks,
    FlowCounts,
    FlowOutcome,
    FlowState,
    Outcome,
    PartitionLag,
    UpdateState,
)
from headrace.model.rows import Rows
from headrace.model.stream_progress import StreamBatches

GOLDEN = Path(__file__).parent / "terminal"
WIDTHS = (80, 120)
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LONG = "revenue_by_customer_and_region_during_the_last_ninety_days_x"
WIDE = "売上_日本語のとても長いテーブル名_顧客と地域ごとの集計"
HEBREW = "הכנסות_לפי_לקוח"
COLOURED = "orders\x1b[31m_red"
FOLDER = "/srv/data/warehouse/production/pipelines/orders/storage/system/logs/2026-11-27"
ERROR = {
    "code": "FLOW.FAILED",
    "message": f'flow "{LONG}" failed: the column "amount" of the file is a string, and the table has a double',
    "detail": "Spark says: [CANNOT_PARSE] " + "the value cannot be cast because it is malformed, " * 9,
    "hint": "Correct the value, or read the column as a string and cast it with try_cast in the query of the flow.",
    "location": {"file": "transformations/silver.py", "line": 12},
    "params": {},
}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Said:
    text: str

    def describe(self) -> str:
        return self.text

    def to_json(self) -> Any:
        return self.text


EDIT = Edit("transformations/silver.py", 12, '        .withWatermark("at", "1 hour")')
DIAGNOSIS = Diagnosis(
    (
        found(
            "checkpoint-torn",
            f'the checkpoint of flow "{LONG}" has a damaged file: {FOLDER}/commits/7: the file is empty',
            flow=LONG,
            dataset=WIDE,
            command=f"headrace checkpoints repair {LONG}",
        ),
        found("late-dropped", f'flow "{COLOURED}": 12 rows', edit=EDIT, command="headrace run --full-refresh orders"),
    ),
    (Unread("the event log", "permission denied", f"{FOLDER}/events"),),
)
CHECKLIST = Checklist(
    tuple(
        Result(criterion, status, f'flow "{COLOURED}" and {LONG}', None if status is Status.PASS else "headrace run")
        for criterion, status in zip(criteria().values(), [*Status, *Status, *Status], strict=False)
    )
)


@dataclass
class Project:
    """Answers the verbs with long texts."""

    error: Exception | None = None
    rows: Rows = field(default_factory=lambda: Rows(("n",), ((1,),)))

    redact = str

    def validate(self) -> Said:
        if self.error:
            raise self.error
        return Said(f"{LONG}  (streaming table)\n  <- {', '.join(f'source_number_{n} (stream)' for n in range(9))}")

    def plan(self, _selection: Any) -> Said:
        evolves = ", ".join(f'adds "column_{n}"' for n in range(8))
        return Said(f"evolve     {LONG}: {evolves}\nstart      {WIDE}: first run\n5 flows not selected")

    def explain(self, name: str) -> Said:
        return Said(f"{name}  (streaming table)\n  table        {FOLDER} (delta, version 12, 1000000 rows, 12 MiB)")

    def sql(self, *_: Any, **__: Any) -> Rows:
        return self.rows

    def quarantine_list(self) -> list[Any]:
        rules = {"customer_has_an_address": 5, "amount_is_positive": 2, "known": 2}
        return [(LONG, 1_200_000, rules), (COLOURED, 6, {"valid": 6})]

    def doctor(self) -> Any:
        return self

    def diagnose(self, _name: str | None) -> Diagnosis:
        return DIAGNOSIS

    def check(self) -> Checklist:
        return CHECKLIST


def flow(name: str, state: FlowState = FlowState.COMPLETED, written: int = 1200, **more: Any) -> FlowOutcome:
    counts = more.pop("counts", FlowCounts(written))
    return FlowOutcome(name, more.pop("dataset", name), state, counts=counts, duration_s=12.34, **more)


SKIPPED = f'reads "{LONG}", which failed in this update, so that it would be incomplete'
UNSELECTED = tuple(flow(f"other{n}", FlowState.EXCLUDED, 0, reason="not selected") for n in range(5))
REJECTED = FlowCounts(1_200_000, 310, 52, (ExpectationCount("customer_has_an_address", Action.DROP, 9, 310),))


def update(state: UpdateState, *flows: FlowOutcome) -> Outcome:
    ended = NOON + timedelta(seconds=42)
    error = ERROR if state is UpdateState.FAILED else None
    ends = state not in (UpdateState.RUNNING, UpdateState.LOST)
    update_id = "9b2e9d3c-54fd-4a2b-a1d7-0f2c7f0f6a11"
    return Outcome(update_id, state, "USER_ACTION", NOON, ended if ends else None, flows, error)


def result(state: UpdateState, *flows: FlowOutcome) -> Callable[[int], str]:
    log = Path(FOLDER) / "update.log" if state is UpdateState.FAILED else None
    return lambda width: outcome_text(update(state, *flows), log=log, width=width)


def frame(*events: Event, continuous: bool, lines: int = 24) -> Callable[[int], str]:
    """The live display 4 seconds after the events."""

    def draw(width: int) -> str:
        now = [100.0]
        console = Console(file=io.StringIO(), width=width, height=lines)
        display = LiveTable(console, lambda: now[0])
        for event in (UpdateCreated("USER_ACTION", {"continuous": continuous}), *events):
            display.on_event(event)
        now[0] += 4
        with console.capture() as capture:
            console.print(display.table())
        return "\n".join(line.rstrip() for line in capture.get().splitlines())

    return draw


def started(*names: str) -> list[Event]:
    return [event for name in names for event in (FlowDefined(name, name), state_of(name, FlowState.RUNNING))]


def state_of(name: str, state: FlowState, reason: str | None = None) -> Event:
    return FlowStateChanged(name, name, state, reason)


PROGRESS = StreamBatches(3, 2, NOON, 2000, {}, 800, 889.0, 400.0)
STREAM = (
    BatchDone("orders", "orders", 0, 3, FlowCounts(1_250_000, 310, 52)),
    StreamProgress("orders", "orders", 0, "q", "r", PROGRESS),
    FlowLagMetrics("orders", "orders", (PartitionLag("t", 0, 5, 1205),)),
)
EXCLUDED = [state_of(f"other{n}", FlowState.EXCLUDED, "not selected") for n in range(5)]
MANY = [state_of(f"flow_{n:02}", state) for n, state in enumerate([FlowState.COMPLETED] * 30 + [FlowState.RUNNING] * 3)]
CYCLE = PipelineError("GRAPH.CYCLE", location=Location("transformations/a.py", 7), path=f"{LONG} -> {WIDE} -> {LONG}")
NO_TABLE = PipelineError("CLI.UNKNOWN_CODE", code="GRAPH.CYCLES", near="GRAPH.CYCLE")
TABLE = Rows(tuple(f"column_{n}" for n in range(12)), (tuple(f"{'value ' * 9}{n}" for n in range(12)),))


def verb(*words: str, **project: Any) -> Callable[[int], str]:
    """What a verb prints, with stderr below stdout."""

    def run(_width: int) -> str:
        call(words, lambda *_, **__: Project(**project))
        return ""

    return run


def alerts(_width: int) -> str:
    text = f'flow "{LONG}" has been failing for 12 minutes, and its tables are 1,204 commits behind'
    step, since = f"headrace --project /srv/data/pipelines/orders explain {LONG}", NOON.timestamp()
    alert = Alert("flow-failed", Severity.BAD, {"flow": LONG}, text, step, AlertState.OPEN, since, since)
    Path("pipeline.yml").write_text("name: orders\n")
    Path("storage/system").mkdir(parents=True)
    write_alerts(Path("storage/system/alerts.json"), StoredAlerts((alert,)))
    call(["alerts", "list"])
    return ""


SCENES: dict[str, Callable[[int], str]] = {
    "run-completed": result(
        UpdateState.COMPLETED, flow("orders"), flow(LONG, counts=REJECTED), flow(WIDE), flow(HEBREW), *UNSELECTED
    ),
    "run-names-of-flows": result(UpdateState.COMPLETED, flow(f"{LONG}_flow", dataset=LONG), flow("a", dataset="b")),
    "run-failed": result(
        UpdateState.FAILED,
        flow(LONG, FlowState.FAILED),
        flow("daily", FlowState.SKIPPED, reason=SKIPPED),
        flow("orders"),
        *UNSELECTED,
    ),
    "status-running": result(
        UpdateState.RUNNING,
        flow(LONG, FlowState.RUNNING, batch=BatchTasks(12, 34, 200, 41)),
        flow("orders", FlowState.RUNNING, lag=(PartitionLag("orders", 0, 5, 17),)),
    ),
    "status-lost": lambda width: outcome_text(
        update(UpdateState.RUNNING, flow("orders", FlowState.RUNNING)).as_lost(), width=width
    ),
    "live-triggered": frame(
        *started("orders", LONG),
        BatchDone("orders", "orders", 0, 0, FlowCounts(5000, 3, 2)),
        state_of("orders", FlowState.COMPLETED),
        FlowDefined("late", "late"),
        *EXCLUDED,
        continuous=False,
    ),
    "live-continuous": frame(*started("orders", LONG, WIDE), *STREAM, *EXCLUDED, continuous=True),
    "live-long-batches": frame(
        *started("orders", LONG),
        *STREAM,
        BatchRunning("orders", "orders", BatchTasks(12, 34, 200, 37)),
        BatchRunning(LONG, LONG, BatchTasks(None, 1034, 12_000, 4100)),
        continuous=True,
    ),
    "live-more-flows-than-lines": frame(*MANY, *EXCLUDED, continuous=False, lines=12),
    "plan": verb("plan"),
    "validate": verb("validate"),
    "explain": verb("explain", LONG),
    "explain-error": verb("explain", "GRAPH.CYCLE"),
    "error": verb("validate", error=CYCLE),
    "errors": verb("validate", error=Problems([CYCLE, NO_TABLE])),
    "alerts": alerts,
    "doctor": verb("doctor"),
    "check": verb("check"),
    "quarantine-list": verb("quarantine", "list"),
    "sql": verb("sql", "q", rows=Rows(("name", "n"), ((COLOURED, 1), (LONG * 2, 20), (WIDE, None), (HEBREW, 4)))),
    "sql-many-columns": verb("sql", "q", rows=TABLE),
    "checkpoints-list": lambda width: text_table(
        _COLUMNS,
        [(f"{LONG}_flow", LONG, 0, 12, 12, 12, "ok"), (WIDE, WIDE, 1, 3, 2, None, "OFFSETS_DAMAGED")],
        width=width,
    ),
    "events": lambda width: folded(
        _text_line({"timestamp": NOON, "level": "ERROR", "message": f"update is FAILED: {ERROR['message']}"}), width
    ),
    "usage": verb("run", "--refrsh", "orders"),
}
# Words of a line, without the marks and margins that stay with them.
EXTRA = re.compile(r"^[\s|=>-]*")


@pytest.fixture(params=WIDTHS)
def terminal(request, monkeypatch, tmp_path) -> tuple[int, Terminal]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setenv("TERM", "xterm")
    return request.param, Terminal()


@contextmanager
def shown_on(screen: Terminal) -> Iterator[None]:
    """Both streams go to the terminal. No fixture, because pytest exchanges the streams after the fixtures."""
    with redirect_stdout(screen), redirect_stderr(screen):
        yield


def compare(name: str, width: int, text: str) -> None:
    file = GOLDEN / str(width) / f"{name}.txt"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def assert_fits(text: str, width: int) -> None:
    """No line is wider than the terminal, unless it is a single word, such as a path, which can be copied so."""
    wide = [line for line in text.splitlines() if cell_len(line) > width and " " in EXTRA.sub("", line)]
    assert wide == []


@pytest.mark.parametrize("name", SCENES)
def test_output_fits_the_terminal(terminal, name):
    width, screen = terminal

    with shown_on(screen):
        text = SCENES[name](width)

    shown = ANSI.sub("", screen.getvalue() or f"{text}\n")
    compare(name, width, shown)
    assert_fits(shown, width)
    assert shown.strip()
    assert "INTERNAL" not in shown
    assert "\x1b[31m_red" not in screen.getvalue()


def test_help_of_every_verb_fits_the_terminal(terminal):
    width, screen = terminal

    with shown_on(screen):
        for words in ((), *verb_words()):
            screen.write(f"$ headrace {' '.join((*words, '--help'))}\n")
            call([*words, "--help"])

    compare("help", width, screen.getvalue())
    assert_fits(screen.getvalue(), width)


def verb_words() -> Iterator[tuple[str, ...]]:
    for name in VERBS:
        verb = load_verb(name)
        if isinstance(verb, typer.Typer):
            yield from ((name, str(command.name)) for command in verb.registered_commands if command.name)
        else:
            yield (name,)


def test_findings_of_lint_fit_the_terminal(terminal, tmp_path):
    width, screen = terminal
    source = f'spark.readStream.schema("id INT, at TIMESTAMP").json("/data/{LONG}")'
    (tmp_path / "a.py").write_text(f"orders = {source}\nlarge = {source}.filter('id > 2').cache()\nlarge.count()\n")

    with shown_on(screen):
        call(["lint", "a.py"])

    shown = ANSI.sub("", screen.getvalue())
    compare("lint", width, shown)
    assert_fits(shown, width)


def test_lines_in_a_pipe_are_neither_folded_nor_shortened(capsys):
    call(["plan"], lambda *_, **__: Project())
    call(["quarantine", "list"], lambda *_, **__: Project())

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) > max(WIDTHS)
    assert [line for line in lines if "…" in line] == []


TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=60)


@given(st.lists(st.sampled_from(["word", "日本語", "a", "x" * 30, "/a/b", "hint:", "  "]), max_size=30).map(" ".join))
@settings(max_examples=examples(few=30, many=300), deadline=None)
def test_folding_keeps_the_words_and_their_order(text):
    lines = folded(text, 24).split("\n")

    assert " ".join(lines).split() == text.split()
    assert [line for line in lines if cell_len(line) > 24 and " " in line.strip()] == []


@given(TEXTS, st.integers(3, 40))
@settings(max_examples=examples(few=30, many=300), deadline=None)
def test_a_shortened_text_fits_and_keeps_both_ends(text, width):
    found = shortened(text, width)

    assert cell_len(found) <= width
    assert found == text or (cell_len(text) > width and "…" in found)


@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 10**9)), min_size=1, max_size=4), st.integers(30, 100))
@settings(max_examples=examples(few=30, many=300), deadline=None)
def test_a_table_fits_any_terminal_and_keeps_its_numbers(rows, width):
    text = text_table(("name", "reason", "rows"), rows, width=width, widest=60)

    assert [line for line in text.splitlines() if cell_len(line) > width] == []
    assert [line.split()[-1] for line in text.splitlines()[2:]] == [str(row[2]) for row in rows]
