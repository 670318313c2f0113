"""What is checked after a save: the files of the author, once for saves in quick succession, compared with before."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.project.development.board import DevBoard, Phase
from headrace.project.development.check import Check, check_of, check_project
from headrace.project.development.dev_loop import DevLoop
from headrace.project.development.plan_lines import PlanLine, Sign, differences, plan_lines, summary
from headrace.project.development.project_files import ProjectFiles
from headrace.project.development.source_watch import SourceWatch
from headrace.project.requests.verb_call import VerbAnswer, VerbCall
from headrace.settings.load import load_settings

PLAN = {
    "changes": [
        {"class": "rebuild", "flow": None, "dataset": "revenue", "why": "its keys changed"},
        {"class": "data", "flow": "orders", "dataset": "orders", "why": "new input"},
    ],
    "renames": [],
    "tables": [{"dataset": "revenue", "change": "create", "reason": "it does not exist"}],
    "views": [],
    "flows": [
        {"flow": "orders", "dataset": "orders", "decision": "up to date", "reason": "nothing new", "reset": False},
        {"flow": "revenue", "dataset": "revenue", "decision": "start", "reason": "it never ran", "reset": True},
    ],
    "away": [],
    "inactive": [],
}
BROKEN = Check(({"code": "FILE.SYNTAX", "message": "no"},))


def valid(*flows: str) -> Check:
    return Check((), tuple(PlanLine("flow", name, "start", "it never ran") for name in flows), has_plan=True)


@pytest.fixture
def folder(tmp_path):
    for name in ("transformations/gold.py", "lib/deep/more.py", "query.sql", "pipeline.yml", "notes.txt", "data.json"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("name: shop\n" if name == "pipeline.yml" else "")
    for name in ("storage/t.py", ".git/hook.py", "__pycache__/a.py", "venv/pyvenv.cfg", "venv/lib/b.py", "deep.yml"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return tmp_path


def files_of(folder: Path) -> ProjectFiles:
    return ProjectFiles.of(load_settings(folder / "pipeline.yml", environ={}))


def test_the_files_of_an_author_are_those_that_a_run_reads_and_not_what_it_writes(folder):
    files = files_of(folder)

    found = [str(Path(path).relative_to(folder)) for path in files.scan()]

    assert sorted(found) == ["lib/deep/more.py", "pipeline.yml", "query.sql", "transformations/gold.py"]


def test_a_save_is_seen_whatever_an_editor_does(folder):
    files = files_of(folder)
    before = files.scan()
    gold, new = folder / "transformations" / "gold.py", folder / "transformations" / "gold.py.tmp"
    new.write_text("")
    new.rename(gold)
    (folder / "query.sql").unlink()
    (folder / "lib" / "new.py").write_text("x = 1\n")

    assert files.changed(before, files.scan()) == ("lib/new.py", "query.sql", "transformations/gold.py")


def test_the_kernel_wakes_whoever_waits_for_a_save(folder):
    watch, files = SourceWatch(), files_of(folder)
    try:
        watch.watch(files.scan())
        before = files.scan()
        (folder / "transformations" / "gold.py").write_text("x = 2\n")
        while files.scan() == before:
            watch.wait()
    finally:
        watch.close()

    assert files.changed(before, files.scan()) == ("transformations/gold.py",)


class Script:
    """Files, and a check, whose saves a test writes down as numbers of versions."""

    def __init__(self, looks: Iterable[int], checks: list[Check], saves_during_check: dict[int, int]) -> None:
        self.version = 0
        self.looks = iter(looks)
        self.checks = checks
        self.saves_during_check = saves_during_check
        self.checked: list[int] = []
        self.board = DevBoard()
        self.shown: list[tuple[Phase, tuple[str, ...]]] = []
        self.loop = DevLoop(self, self, self.check, self.board, lambda: 7.0, self.pause)
        self.board.on_change(lambda: self.shown.append((self.board.state.phase, self.board.state.saved)))

    def scan(self):
        return {"a": (self.version, 0, 0)}

    def changed(self, before, after):
        return ("a.py",) if before != after else ()

    def watch(self, files):
        pass

    def wake(self):
        pass

    def wait(self):
        self.pause(0)

    def pause(self, _seconds):
        """The next moment: the version that is there then; the end when no more is written down."""
        found = next(self.looks, None)
        if found is None:
            self.loop.stop()
        else:
            self.version = found

    def check(self):
        self.checked.append(self.version)
        self.version = self.saves_during_check.get(len(self.checked), self.version)
        return self.checks[min(len(self.checked), len(self.checks)) - 1]


def test_saves_in_quick_succession_are_one():
    script = Script([1, 2, 3, 3, 3, 3], [valid("a")], {})

    script.loop.run()

    assert script.checked == [0, 3]


def test_a_save_during_a_check_leads_to_one_more_after_it():
    script = Script([1, 1, 2, 2, 2, 2], [valid("a")], {2: 2})

    script.loop.run()

    assert script.checked == [0, 1, 2]


def test_without_a_save_nothing_is_checked_unless_it_is_asked_for():
    script = Script([0, 0, 0], [valid("a")], {})
    script.loop.run()
    assert script.checked == [0]

    asked = Script([0, 0], [valid("a")], {})
    asked.loop.ask()
    asked.loop.run()
    assert asked.checked == [0, 0]


def test_a_broken_file_shows_its_problem_and_the_next_good_save_clears_it_and_is_compared_with_the_last_good_one():
    script = Script([1, 1, 2, 2, 2], [valid("a"), BROKEN, valid("a", "b")], {})

    script.loop.run()

    state = script.board.state
    assert [phase for phase, _ in script.shown] == [
        *(Phase.CHECKING, Phase.VALID),
        *(Phase.CHECKING, Phase.BROKEN),
        *(Phase.CHECKING, Phase.VALID),
    ]
    assert (state.check.problems, state.checked_at, state.checks) == ((), 7.0, 3)
    assert [(one.sign, one.line.name) for one in state.changes] == [(Sign.NEW, "b")]


def test_a_plan_is_a_line_for_each_thing_and_new_input_alone_is_no_change():
    lines = plan_lines(PLAN)

    assert [line.text for line in lines] == [
        "rebuild      revenue: its keys changed",
        "create       table revenue: it does not exist",
        "up to date   orders: nothing new",
        "start        revenue: it never ran, starts over",
    ]
    assert summary(lines) == "create table, 1 flow up to date, 1 flow to run"
    assert summary(()) == "nothing to do"


LINES = st.lists(
    st.builds(
        PlanLine,
        st.sampled_from(["flow", "table"]),
        st.sampled_from("abc"),
        st.sampled_from(["start", "skip"]),
        st.just(""),
    ),
    unique_by=lambda line: (line.kind, line.name),
).map(tuple)


@given(LINES, LINES)
def test_two_plans_differ_exactly_if_their_lines_do(before, after):
    found = differences(before, after)

    assert (not found) == (set(before) == set(after))
    named = {(one.line.kind, one.line.name) for one in found if one.sign is not Sign.GONE}
    assert all((line in before) != ((line.kind, line.name) in named) for line in after)


def test_an_answer_without_a_document_is_a_problem_with_a_hint():
    check = check_of(VerbAnswer(-9, notices=("first", "Killed")))

    assert (check.has_plan, check.problems[0]["code"], check.problems[0]["detail"]) == (
        False,
        "DEV.NO_ANSWER",
        "Killed.",
    )


def call_of(tmp_path: Path, script: str, **given) -> VerbCall:
    (tmp_path / "verb.py").write_text(script)
    return VerbCall(tmp_path, None, {}, command=(sys.executable, str(tmp_path / "verb.py")), **given)


ECHO = """
import json, sys
print(json.dumps({"words": sys.argv[1:], "text": sys.stdin.read()}))
print("a notice", file=sys.stderr)
"""
WAITS = "import time\nprint('[1]', flush=True)\ntime.sleep(600)\n"


def test_a_verb_gets_its_text_and_answers_with_a_document(tmp_path):
    answer = call_of(tmp_path, ECHO).run(["sql", "-"], text="SELECT 'é'")

    assert answer.document == {
        "words": ["--project", str(tmp_path), "--output", "json", "sql", "-"],
        "text": "SELECT 'é'",
    }
    assert (answer.code, answer.notices) == (0, ("a notice",))


@pytest.mark.parametrize(
    ("given", "what"),
    [({"timeout_s": 0.05}, "is_late"), ({"is_canceled": lambda: True}, "is_canceled")],
)
def test_a_verb_that_takes_too_long_or_that_nobody_waits_for_is_stopped_and_has_no_document(tmp_path, given, what):
    answer = call_of(tmp_path, WAITS).run(["plan"], **given)

    assert (getattr(answer, what), answer.document, answer.code < 0) == (True, None, True)


def test_a_verb_whose_answer_is_too_long_is_stopped(tmp_path):
    answer = call_of(tmp_path, "while True: print('x' * 1000)\n", most_bytes=10_000).run(["sql"])

    assert (answer.is_too_long, answer.document) == (True, None)


def test_a_check_is_a_plan_that_waits_for_its_turn(tmp_path):
    script = f"import json, sys\nassert sys.argv[-2:] == ['plan', '--wait']\nprint(json.dumps({PLAN!r}))\n"

    check = check_project(call_of(tmp_path, script))

    assert (check.has_plan, check.lines, check.datasets) == (True, plan_lines(PLAN), ("revenue", "orders"))
