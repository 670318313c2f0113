"""What `headrace dev` prints, and how it opens the browser."""

from __future__ import annotations

import io
import json
import re
import stat

import pytest
from rich.console import Console

from headrace.cli import dev_browser
from headrace.cli.dev_browser import can_open_browser, open_page
from headrace.cli.dev_display import DevDisplay
from headrace.cli.invocation import Invocation, Output
from headrace.cli.open_project import open_project
from headrace.project.development.board import DevBoard
from headrace.project.development.check import Check
from headrace.project.development.plan_lines import PlanLine
from headrace.project.requests.verb_call import VerbAnswer

PROBLEM = {
    "code": "DATASET.UNKNOWN_COLUMN",
    "message": 'column "amuont" does not exist\x1b[31m in password',
    "detail": None,
    "hint": 'Did you mean "amount"? The columns are id, amount, customer, place, created_at and updated_at.',
    "location": {"file": "transformations/gold.py", "line": 12},
}


def plan(**flows: str) -> Check:
    lines = tuple(PlanLine("flow", name, verb.split(":")[0], verb.split(":")[1]) for name, verb in flows.items())
    return Check((), lines, has_plan=True, duration_s=0.44)


class Terminal(io.StringIO):
    """A text that is shown on a terminal."""

    def isatty(self) -> bool:
        return True


class Shown:
    """A display whose text a test reads."""

    def __init__(self, *, width: int | None = None, output: Output = Output.TEXT) -> None:
        self.board = DevBoard()
        self.out = Terminal() if width is not None else io.StringIO()
        invocation = Invocation(open_project, output=output)
        invocation.console = Console(file=self.out, width=width, force_terminal=width is not None, soft_wrap=True)
        self.display = DevDisplay(invocation, self.board)
        self.display.welcome(
            "shop", "http://127.0.0.1:8741", "http://127.0.0.1:8741/login?token=hr_1", 2, self._redacted
        )
        self.board.on_change(self.display.changed)

    @staticmethod
    def _redacted(text: str) -> str:
        return text.replace("password", "***")

    def saved(self, check: Check, *files: str) -> None:
        self.board.show(self.board.state.begun(files))
        self.board.show(self.board.state.ended(check, 0.0))

    @property
    def text(self) -> str:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", self.out.getvalue())
        return re.sub(r"^\d\d:\d\d:\d\d", "HH:MM:SS", plain, flags=re.MULTILINE)


EXPECTED = """\
headrace dev  shop
  pages    http://127.0.0.1:8741/
  sign in  http://127.0.0.1:8741/login?token=hr_1
  watches  2 files, and checks after each save
HH:MM:SS  first check: the worker starts, which takes some seconds
HH:MM:SS  valid, 0.4 s: 2 flows to run
  start        orders: it never ran
  start        revenue: it never ran
HH:MM:SS  saved transformations/gold.py
HH:MM:SS  1 problem, 0.0 s
  transformations/gold.py:12
  error[DATASET.UNKNOWN_COLUMN]: column "amuont" does not exist\\x1b[31m in ***
    hint: Did you mean "amount"? The columns are id, amount, customer, place, created_at and updated_at.
HH:MM:SS  saved transformations/gold.py
HH:MM:SS  valid again, 0.4 s: 1 flow to run, 1 flow up to date
- start        revenue: it never ran
+ up to date   revenue: nothing new
HH:MM:SS  saved transformations/gold.py
HH:MM:SS  valid, 0.4 s: 1 flow to run, 1 flow up to date
  the plan is as before the save
"""


def session(shown: Shown) -> None:
    gold = "transformations/gold.py"
    shown.saved(plan(orders="start:it never ran", revenue="start:it never ran"))
    shown.saved(Check((PROBLEM,)), gold)
    shown.saved(plan(orders="start:it never ran", revenue="up to date:nothing new"), gold)
    shown.saved(plan(orders="start:it never ran", revenue="up to date:nothing new"), gold)


def test_each_save_shows_its_problems_or_how_the_plan_changes():
    shown = Shown()

    session(shown)

    assert shown.text == EXPECTED


def test_on_a_terminal_of_80_columns_no_line_is_longer_but_a_url():
    shown = Shown(width=80)

    session(shown)

    assert max(len(line) for line in shown.text.splitlines() if "token=" not in line) <= 80
    assert "created_at and" in " ".join(shown.text.split())


def test_for_programs_each_check_is_a_line_of_json(capsys):
    shown = Shown(output=Output.JSON)

    session(shown)

    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["phase"] for one in documents] == ["valid", "broken", "valid", "valid"]
    assert documents[1]["problems"][0]["message"].endswith("in ***")
    assert documents[2]["changes"][0]["text"] == "up to date   revenue: nothing new"


def test_a_preview_shows_rows_notices_or_the_error():
    shown = Shown()

    shown.display.preview(VerbAnswer(0, [{"id": 1, "name": "a"}], ("looked at 1 row",)))
    shown.display.preview(VerbAnswer(0, []))
    shown.display.preview(VerbAnswer(2, {"problems": [PROBLEM]}))

    text = shown.text.partition("each save\n")[2]
    rows = "id  name\n--  ----\n 1  a\n(1 row)\n  looked at 1 row\n(0 rows)\n"
    assert text.startswith(f"{rows}  transformations/gold.py:12\n")


@pytest.mark.parametrize(
    ("environ", "expected"), [({}, False), ({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "w"}, True)]
)
def test_a_browser_is_opened_only_where_it_has_a_window(monkeypatch, environ, expected):
    monkeypatch.setattr(dev_browser.sys, "platform", "linux")

    assert can_open_browser(environ) == expected


def test_the_browser_gets_a_file_of_the_user_and_no_token_on_its_command_line(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(dev_browser.webbrowser, "open", opened.append)

    open_page("http://127.0.0.1:8741/login?token=hr_1&next=/p/shop", tmp_path)

    file = tmp_path / "open.html"
    assert opened == [file.as_uri()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert 'content="0; url=http://127.0.0.1:8741/login?token=hr_1&amp;next=/p/shop"' in file.read_text()
