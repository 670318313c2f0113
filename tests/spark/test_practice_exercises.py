"""The checks of the exercises: a starter fails its check and says what is missing, a solution passes it."""

from __future__ import annotations

import json

import pytest
from tests.command_line import in_process

from headrace.assistant.practice.exercise import exercise, exercises
from headrace.practice.checks import check
from headrace.practice.exercise_files import write_exercise
from headrace.testing.warm import unchanged

pytestmark = pytest.mark.spark

OTHER_CASES = pytest.mark.long(guard="its other cases")
# The quickest.
IN_EACH_RUN = 5
# What the check of each starter finds to be missing: words of the criteria.
MISSING = {
    1: ["streaming table", "columns", "each paid order once", "checkpoint", "only new orders", "also after new orders"],
    2: ["readings are counted"],
    3: ["each click", "broadcasts", "fewer"],
    4: ["duplicates are removed"],
    5: ["columns", "each visit", "times and durations"],
    6: ["names the bottleneck", "a third"],
}


@pytest.fixture
def checked(headrace_session, tmp_path):
    """Checks the starter or the solution of an exercise; *changes* replace texts of its files."""

    def run(number, *, solved, changes=()):
        found = exercise(number)
        write_exercise(found, tmp_path / "mine", solved=solved)
        for path, old, new in changes:
            text = (tmp_path / "mine" / path).read_text()
            assert old in text
            (tmp_path / "mine" / path).write_text(text.replace(old, new))
        (tmp_path / "scratch").mkdir()
        return check(found, tmp_path / "mine", tmp_path / "scratch")

    with unchanged(headrace_session, tmp_path):
        yield run


@pytest.mark.parametrize(
    "number",
    [pytest.param(one.number, marks=() if one.number == IN_EACH_RUN else OTHER_CASES) for one in exercises()],
)
def test_a_starter_fails_its_check_with_what_is_missing(checked, number):
    found = checked(number, solved=False)

    missing = [criterion.says for criterion in found if not criterion.met]
    assert len(missing) == len(MISSING[number])
    assert all(words in says for words, says in zip(MISSING[number], missing, strict=True))
    assert all(criterion.advice for criterion in found if not criterion.met)


@pytest.mark.parametrize(
    "number",
    [pytest.param(one.number, marks=() if one.number == IN_EACH_RUN else OTHER_CASES) for one in exercises()],
)
def test_a_solution_passes_its_check(checked, number):
    found = checked(number, solved=True)

    assert [(criterion.says, criterion.measured) for criterion in found if not criterion.met] == []


READINGS, PAYMENTS = "transformations/readings.py", "transformations/payments.py"


@pytest.mark.long(guard="tests/spark/test_practice_exercises.py::test_a_starter_fails_its_check_with_what_is_missing")
@pytest.mark.parametrize(
    ("number", "change", "missing"),
    [
        pytest.param(2, (READINGS, '"35 minutes"', '"3 hours"'), ["windows are in state"], id="a delay too long"),
        pytest.param(
            4,
            (PAYMENTS, "dropDuplicatesWithinWatermark", "dropDuplicates"),
            ["keys are in state"],
            id="a state that has each key",
        ),
        pytest.param(
            4,
            (PAYMENTS, '"1 hour"', '"1 minute"'),
            ["duplicates are removed"],
            id="a delay shorter than duplicates are late",
        ),
    ],
)
def test_a_half_solution_fails_only_what_it_lacks(checked, number, change, missing):
    found = checked(number, solved=True, changes=[change])

    lacking = [criterion.says for criterion in found if not criterion.met]
    assert [any(words in says for words in missing) for says in lacking] == [True] * len(missing)


def test_a_project_that_does_not_run_is_one_missing_criterion(checked):
    (found,) = checked(
        5, solved=True, changes=[("transformations/visits.py", '"user", F.session', '"nobody", F.session')]
    )

    assert (found.met, found.says) == (False, "the project runs")
    assert "nobody" in found.measured


def test_the_check_of_a_project_is_one_json_document(headrace_session, tmp_path):
    write_exercise(exercise(5), tmp_path / "mine", solved=False)
    before = sorted(file for file in (tmp_path / "mine").rglob("*"))

    done = in_process(tmp_path / "mine", "practice", "exercise", "5", "--check", "--output", "json")

    found = json.loads(done.stdout)
    assert (done.returncode, found["met"], found["exercise"]) == (1, False, 5)
    assert {"criterion", "met", "measured", "advice"} == set(found["criteria"][0])
    assert sorted(file for file in (tmp_path / "mine").rglob("*")) == before
