"""`headrace design --diff`: what today's rules would change in a project, told apart from what its users edited."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

EXAMPLES = Path(__file__).parents[3] / "examples" / "design"
RECORD = Path(".headrace/design.json")
ROWS = [
    {"event_id": f"e{n}", "seen_at": f"2026-01-01T{n // 60:02}:{n % 60 + 2 - 2 * (n % 3):02}:00Z"} for n in range(600)
]
OPEN = """name: shop
sources:
  - name: events
    kind: kafka
outputs:
  - name: once
    kind: dedup
"""
# Every question has a default.
BRONZE = OPEN.replace("kind: kafka", "kind: synthetic").replace("dedup", "bronze")


@pytest.fixture
def project(cli: Any, tmp_path: Path) -> Callable[..., Path]:
    """Makes the project of an example, or of a text, in the folder of the test."""

    def make(example: str = "session_metrics", *words: str, text: str | None = None) -> Path:
        file = tmp_path / "first.yml"
        file.write_text(text or (EXAMPLES / f"{example}.yml").read_text(encoding="utf-8"), encoding="utf-8")
        assert cli("design", str(file), "--out", ".", *words)[0] == 0
        file.unlink()
        return tmp_path

    return make


@pytest.fixture
def diff(cli: Any) -> Callable[..., Any]:
    """The exit code and the JSON of the difference."""

    def run(*words: str) -> Any:
        code, out, _ = cli("design", "--diff", "--output", "json", *words)
        return code, json.loads(out)

    return run


def states(found: Any) -> dict[str, str]:
    return {one["path"]: one["state"] for one in found["files"]}


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("example", ["kafka_bronze", "late_events", "session_metrics"])
def test_nothing_would_change_in_a_project_as_it_was_made(project: Any, diff: Any, cli: Any, example: str) -> None:
    project(example)

    code, found = diff()

    assert (code, found["files"], found["decisions"], found["requirements_changed"]) == (0, [], [], False)
    assert "0 files and 0 decisions would change" in cli("design", "--diff")[1]


def test_defaults_and_proposals_stay_what_they_were(project: Any, diff: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    project("", "--defaults", "--sample", "rows.json", text=OPEN)

    code, found = diff()

    assert (code, found["files"], found["decisions"]) == (0, [], [])
    assert "proposed.lateness.within" in (tmp_path / "design.md").read_text(encoding="utf-8")


def test_edits_are_no_changes_of_the_design(project: Any, diff: Any) -> None:
    folder = project()
    edit(folder / "runbook.md", "# ", "# Our ")

    code, found = diff()

    assert (code, states(found), found["changes"]) == (0, {"runbook.md": "edited"}, 0)
    assert [one["diff"] for one in found["files"]] == [""]


def test_changed_requirements_name_the_decisions_and_files_that_follow(project: Any, diff: Any) -> None:
    folder = project()
    edit(folder / "requirements.yml", "gap: 30 minutes", "gap: 45 minutes")
    edit(folder / "transformations/gold.py", '"""', '"""Ours. ')
    (folder / "tests/test_user_sessions.py").unlink()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    code, found = diff()

    of = states(found)
    assert (code, found["requirements_changed"]) == (1, True)
    assert (of["transformations/gold.py"], of["tests/test_user_sessions.py"]) == ("changed and edited", "deleted")
    assert of["design.md"] == "changed"
    (state,) = [one for one in found["decisions"] if one["id"] == "state"]
    assert ("30 minutes" not in state["reason"], state["page"]) == (True, "guides/state")
    (gold,) = [one["diff"] for one in found["files"] if one["path"] == "transformations/gold.py"]
    assert [line for line in gold.splitlines() if "45 minutes" in line and line.startswith("+")]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_another_rule_is_told_from_changed_requirements(
    project: Any, diff: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project("", "--defaults", text=BRONZE)
    monkeypatch.setattr("headrace.assistant.design.questions.DEFAULT_LATENCY_S", 3600.0)

    code, found = diff()

    assert (code, found["requirements_changed"], states(found)["pipeline.yml"]) == (1, False, "changed")


def test_files_and_decisions_that_a_design_no_longer_has_are_named(project: Any, diff: Any) -> None:
    folder = project()
    text = (folder / "requirements.yml").read_text(encoding="utf-8")
    start = text.index("  - name: platform_metrics")
    (folder / "requirements.yml").write_text(text[:start] + text[text.index("latency: 1 minute") :], encoding="utf-8")

    code, found = diff()

    assert (code, states(found)["tests/test_platform_metrics.py"]) == (1, "obsolete")
    assert [one["now"] for one in found["decisions"] if one["id"] == "results.platform_metrics"] == [None]


def test_a_project_without_a_record_is_compared_without_knowing_why_files_differ(
    project: Any, diff: Any, cli: Any
) -> None:
    folder = project()
    (folder / RECORD).unlink()
    edit(folder / "requirements.yml", "gap: 30 minutes", "gap: 45 minutes")
    edit(folder / "runbook.md", "# ", "# Our ")

    code, found = diff()

    assert (code, found["made_with"], found["requirements_changed"]) == (1, None, None)
    assert set(states(found).values()) == {"differs"}
    assert "runbook.md" in states(found)
    # The decisions come from the page.
    assert "state" in {one["id"] for one in found["decisions"]}
    assert "no record of its design" in cli("design", "--diff")[1]


def test_a_design_again_replaces_what_nobody_edited_and_records_it(project: Any, diff: Any, cli: Any) -> None:
    folder = project()
    edit(folder / "requirements.yml", "gap: 30 minutes", "gap: 45 minutes")

    code, out, _ = cli("design", "requirements.yml", "--out", ".", "--output", "json")

    assert (code, "transformations/gold.py" in json.loads(out)["written"]["replaced"]) == (0, True)
    assert diff()[0] == 0
    edit(folder / "requirements.yml", "gap: 45 minutes", "gap: 50 minutes")
    edit(folder / "transformations/gold.py", '"""', '"""Ours. ')
    code, out, _ = cli("design", "requirements.yml", "--out", ".", "--output", "json")
    assert [one["params"]["path"] for one in json.loads(out)["problems"]] == ["transformations/gold.py"]


def test_the_lateness_of_a_table_keeps_its_figure_without_the_table(project: Any, diff: Any, tmp_path: Path) -> None:
    text = (EXAMPLES / "late_events.yml").read_text(encoding="utf-8")
    for minute in (5, 1, 9):
        times = pa.array([datetime(2026, 1, 1, 0, minute, tzinfo=UTC)], pa.timestamp("us", "UTC"))
        write_deltalake(str(tmp_path / "past"), pa.table({"read_at": times}), mode="append")
    project("", text=text.replace("{within: 20 minutes,", "{measure_from: past,"))
    shutil.rmtree(tmp_path / "past")

    code, found = diff()

    assert (code, found["files"], found["decisions"]) == (0, [], [])
    assert "measured in past" in (tmp_path / "design.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("files", [{}, {"requirements.yml": BRONZE}, {"pipeline.yml": "name: a\n"}])
def test_what_design_did_not_make_is_refused(cli: Any, tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    _, out, _ = cli("design", "--diff", "--defaults", "--output", "json")

    assert json.loads(out)["error"]["code"] == "DESIGN.NO_PROJECT"


@pytest.mark.parametrize("text", ["{", '{"format": 1}', '{"format": 9}', "[]"])
def test_a_record_that_cannot_be_read_is_named(project: Any, diff: Any, text: str) -> None:
    (project() / RECORD).write_text(text, encoding="utf-8")

    code, found = diff()

    assert (code, found["error"]["code"]) == (2, "DESIGN.RECORD")


def test_a_file_of_the_project_that_cannot_be_read_is_named(project: Any, diff: Any) -> None:
    file = project() / "runbook.md"
    file.unlink()
    file.mkdir()

    assert diff()[1]["error"]["code"] == "DESIGN.NOT_READ"


@pytest.mark.parametrize("word", ["--questions", "--ask", "--force"])
def test_a_difference_is_not_asked_for_together_with_something_else(diff: Any, word: str) -> None:
    assert diff(word)[1]["error"]["code"] == "CLI.CONFLICT"
