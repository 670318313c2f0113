"""The exercises: their files, their data and the results that the data must give."""

from __future__ import annotations

import ast
from datetime import datetime

import pytest
import yaml

from headrace.assistant.practice.exercise import README, exercise, exercises
from headrace.assistant.practice.exercise_data import data_of, rows_of, visits
from headrace.errors import PipelineError
from headrace.lint.lint_files import lint_text

EXERCISES = exercises()


@pytest.mark.parametrize("found", EXERCISES, ids=lambda one: str(one.number))
@pytest.mark.parametrize("solved", [False, True], ids=["starter", "solution"])
def test_a_project_has_instructions_settings_and_programs_without_findings(found, solved):
    files = found.files(solved=solved)
    programs = {path: text for path, text in files.items() if path.endswith(".py")}

    assert f"headrace practice exercise {found.number} --check" in files[README]
    assert yaml.safe_load(files["pipeline.yml"])["name"] == f"exercise_{found.number}"
    assert all(ast.parse(text) and "TODO" not in text for text in programs.values())
    linted = [lint_text(text, ".py", path, in_project=True) for path, text in programs.items()]
    rules = {finding.rule.id for result in linted for finding in result.findings}
    # Totals that replace their table in each batch.
    assert (bool(programs), rules) == (True, {"no-watermark"} if found.number == 6 else set())


@pytest.mark.parametrize("found", EXERCISES, ids=lambda one: str(one.number))
def test_a_solution_changes_files_of_the_starter(found):
    assert found.solution.keys() <= found.starter.keys()
    assert all(found.starter[path] != text for path, text in found.solution.items())


@pytest.mark.parametrize("number", [one.number for one in EXERCISES])
def test_data_is_the_same_each_time_and_small(number):
    assert data_of(number) == data_of(number)
    assert 100 < sum(len(file.rows) for file in data_of(number)) < 1000


def test_late_readings_and_duplicates_are_as_the_exercises_say():
    readings = rows_of(2, "data/readings")
    payments = [row["payment_id"] for row in rows_of(4, "data/payments")]

    newest, late = datetime.fromisoformat(readings[0]["at"]), 0
    for row in readings:
        late += (newest - datetime.fromisoformat(row["at"])).total_seconds() > 1200
        newest = max(newest, datetime.fromisoformat(row["at"]))
    assert 0.04 < late / len(readings) < 0.15
    assert 0.15 < 1 - len(set(payments)) / len(payments) < 0.3


def view(user, minute):
    return {"user": user, "at": f"2026-01-01T{8 + minute // 60:02}:{minute % 60:02}:00", "page": "/"}


def test_visits_end_after_half_an_hour_without_a_view():
    found = visits([view("b", 5), view("a", 0), view("a", 29), view("a", 59), view("last", 100)])

    assert [(one["user"], one["duration_s"], one["page_views"]) for one in found] == [
        ("a", 29 * 60, 2),
        ("a", 0, 1),
        ("b", 0, 1),
    ]


def test_views_leave_no_doubt_where_a_visit_ends():
    own = {}
    for row in rows_of(5, "data/views"):
        own.setdefault(row["user"], []).append(datetime.fromisoformat(row["at"]))
    pauses = [
        (second - first).total_seconds() / 60
        for times in own.values()
        for first, second in zip(sorted(times), sorted(times)[1:], strict=False)
    ]

    assert all(pause <= 12 or pause >= 50 for pause in pauses)
    assert any(pause > 2 for pause in pauses if pause <= 12)


@pytest.mark.parametrize("number", [0, len(EXERCISES) + 1])
def test_an_unknown_exercise_is_refused(number):
    with pytest.raises(PipelineError) as raised:
        exercise(number)

    assert raised.value.code == "PRACTICE.NO_EXERCISE"
