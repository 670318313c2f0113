"""The verbs plan, approve and apply, and a plan as Markdown."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.unit.plan.test_plan_files import PLAN

from headrace.cli.plan_markdown import PlanMarkdown, as_code, as_text
from headrace.errors import PipelineError
from headrace.graph.select import Selection
from headrace.model.change_classes import ChangeClass
from headrace.plan.changes import Change, OldRows, Work
from headrace.plan.code_diff import CodeDiff, FlowDiff
from headrace.plan.refused import RefusedPlan
from headrace.plan.steps import Plan

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
DIFF = CodeDiff((FlowDiff("orders", "orders", "--- deployed/a.py\n+++ now/a.py\n-x = 1\n+x = 2"),), {})


@pytest.fixture
def file(tmp_path):
    """A plan in a file."""
    found = tmp_path / "change.plan.json"
    found.write_text(PLAN.to_text(), encoding="utf-8")
    return found


def test_a_plan_is_written_to_a_file_and_printed(cli, tmp_path):
    code, out, _ = cli("plan", "--full-refresh", "orders", "--out", "change.plan.json")

    assert (code, out.splitlines()[0]) == (0, "a plan")
    assert out.splitlines()[1].startswith(f"plan {PLAN.plan_id} is in change.plan.json, valid until")
    assert json.loads((tmp_path / "change.plan.json").read_text())["digest"] == PLAN.digest
    assert cli.project.asked == [("plan", Selection(full_refresh=("orders",))), ("file_of",)]


def test_as_json_a_plan_names_its_file_and_digest(cli):
    _, out, _ = cli("--output", "json", "plan", "--out", "p.json", "--diff")

    assert json.loads(out) == {
        "empty": True,
        "code": DIFF.to_json(),
        "plan_id": PLAN.plan_id,
        "digest": PLAN.digest,
        "file": "p.json",
    }


def test_a_diff_follows_the_plan(cli):
    _, out, _ = cli("plan", "--diff")

    assert out == f"a plan\n\nflow orders:\n{DIFF.flows[0].text}\n"


def test_formats_that_contradict_each_other_are_refused(cli):
    code, _, err = cli("--output", "json", "plan", "--format", "markdown")

    assert code == 2
    assert "CLI.CONFLICT" in err + _ or "CONFLICT" in _


def test_a_refused_plan_is_shown_before_its_errors_and_not_written(cli, plan, tmp_path):
    """Guards that the rest of a plan is visible when something of it is refused, and that nobody can approve it."""
    error = PipelineError("FLOW.STATE_CHANGED", flow="orders", name="orders", changes="a key is new", otherwise="")
    cli.project.error = RefusedPlan(replace(plan, refused=(error,), changes=(blocked := _blocked(error), *CHANGES)))

    code, out, err = cli("plan", "--out", "p.json")
    _, as_json, _ = cli("--output", "json", "plan")
    _, markdown, _ = cli("plan", "--format", "markdown")

    assert (code, out.splitlines()[1]) == (2, f"  blocked       orders: {error.message}")
    assert "rebuild       orders" in out
    assert "error[FLOW.STATE_CHANGED]" in err
    assert not (tmp_path / "p.json").exists()
    document = json.loads(as_json)
    assert document["error"]["code"] == "FLOW.STATE_CHANGED"
    assert document["plan"]["changes"][0] == blocked.to_json()
    assert "headrace run" in unescape(markdown).partition("To continue")[2]


def _blocked(error):
    return Change(ChangeClass.BLOCKED, "orders", "orders", error.message, error=error)


def test_an_approval_is_added_to_the_file(cli, file):
    first, out, _ = cli("approve", str(file), "--as", "bob", "--note", "after the backup")
    second, _, _ = cli("approve", str(file), "--as", "eve")

    approvals = json.loads(file.read_text())["approvals"]
    assert (first, second) == (0, 0)
    assert out.startswith(f"plan {PLAN.plan_id} of ann is approved by bob\n  changes: rebuild, widen, data")
    assert [(one["by"], one["says"], one["digest"]) for one in approvals] == [
        ("bob", "after the backup", PLAN.digest),
        ("eve", "", PLAN.digest),
    ]
    assert not cli.opened


@pytest.mark.parametrize("verb", ["approve", "apply"])
def test_a_changed_or_missing_file_is_refused_before_anything_else(cli, file, verb):
    file.write_text(file.read_text().replace('"rows_cleared": 110', '"rows_cleared": 999999'))

    changed, _, changed_error = cli(verb, str(file))
    missing, _, missing_error = cli(verb, "none.json")

    assert (changed, missing) == (2, 2)
    assert "PLAN.TAMPERED" in changed_error
    assert "PLAN.UNREADABLE" in missing_error
    assert not cli.opened


def test_an_approved_plan_is_applied(cli, file):
    code, out, _ = cli("apply", str(file), "--set", "landing=/in")

    assert code == 0
    assert cli.project.asked == [("apply", PLAN.plan_id, str(file))]
    assert cli.opened[0][2] == {"landing": "/in"}
    assert "COMPLETED" in out.upper()


CHANGES = (
    Change(
        ChangeClass.REBUILD, "orders", None, "full refresh", ("hours", "report"), 1203, Work(98_000, 1_200_000, 39.2)
    ),
    Change(
        *(ChangeClass.FORWARD_ONLY, "clicks", "clicks_eu", "its code changed; rows that are in it stay as they are"),
        old_rows=OldRows(12, (0, 4), 0, 3, (), "headrace run --full-refresh clicks", "1 of 3 files is missing"),
    ),
    Change(ChangeClass.DATA, "raw", "raw", "3 new files"),
)


@pytest.fixture
def plan(make):
    return replace(Plan(make.graph(make.flow("orders")), (), ()), changes=CHANGES)


def test_a_plan_as_markdown(plan):
    rendered = PlanMarkdown(str).render(plan, DIFF)

    golden = GOLDEN / "plan.md"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(f"{rendered}\n", encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == f"{rendered}\n"


def test_a_plan_without_changes_says_so(plan):
    assert "Nothing to do." in PlanMarkdown(str).render(replace(plan, changes=()), CodeDiff((), {}))


HOSTILE = [
    *("</code><script>alert(1)</script>", "a|b", "`x`", "![x](http://e/x.png)", "@everyone", "#12", "**b**", "a\n# b"),
    *("</details>", "&lt;b&gt;", "www.example.org", "\u202eabc", "\\|", "$$x$$", "[x]: y", "~~~", "- [ ] x"),
]


@given(st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1)).filter(lambda text: text.strip()))
def test_names_and_texts_cannot_add_markdown_or_html(name):
    page = MarkdownIt("gfm-like", {"linkify": False})
    table = f"| a | b |\n|---|---|\n| {as_code(name)} | {as_text(name)} |\n"

    html = page.render(table)

    tags = re.findall(r"</?(\w+)", html)
    assert set(tags) == {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert tags.count("tr") == 4
    assert tags.count("td") == 4
    assert "@" not in unescape(as_text("@x")).replace("@\u2060", "")


def test_a_fence_is_longer_than_any_in_the_code_and_long_diffs_are_cut(plan):
    rendered = PlanMarkdown(str).render(plan, CodeDiff((FlowDiff("a", "a", "+````\n</details>"),), {}))
    long = PlanMarkdown(str).render(plan, CodeDiff((FlowDiff("a", "a", "+line\n" * 50_000),), {}))

    assert "`````diff" in rendered
    assert len(long) < 60_000
    assert re.search(r"\.\.\. \d+ more lines", long)


def test_secrets_are_removed_before_texts_are_escaped(plan):
    secret = Change(ChangeClass.REBUILD, "orders", None, "reads p@ss")
    rendered = PlanMarkdown(lambda text: text.replace("p@ss", "***")).render(replace(plan, changes=(secret,)), DIFF)

    assert "p&#64;" not in rendered
