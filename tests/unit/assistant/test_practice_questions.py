"""Practice questions: what their files have, and how answers are judged."""

from __future__ import annotations

import ast
import re

import pytest

from headrace.assistant.practice.question import question, questions
from headrace.errors import PipelineError

QUESTIONS = questions()


@pytest.mark.parametrize("found", QUESTIONS, ids=lambda one: str(one.number))
def test_a_question_has_a_right_answer_an_explanation_a_page_and_a_proof(found):
    assigned = {node.id for node in ast.walk(ast.parse(found.proof.program)) if isinstance(node, ast.Name)}

    assert list(found.choices) == ["A", "B", "C", "D"]
    assert len(set(found.choices.values())) == 4
    assert found.answer in found.choices
    assert all((found.title, found.objective, found.text, found.why, found.caveats))
    assert re.fullmatch(r"[a-z-]+/[a-z-]+", found.page)
    assert {claim.name for claim in found.proof.claims} <= assigned


def test_the_title_of_each_question_is_its_own():
    assert len({found.title for found in QUESTIONS}) == len(QUESTIONS)


def test_the_answers_are_not_all_the_same_letter():
    given = [found.answer for found in QUESTIONS]

    assert max(map(given.count, given)) < len(given) * 0.6


def test_an_answer_is_judged_by_its_letter_in_any_case():
    first = question(1)

    assert [first.is_right(letter) for letter in ("a", first.answer, first.answer.lower())] == [False, True, True]


@pytest.mark.parametrize("number", [0, len(QUESTIONS) + 1])
def test_an_unknown_question_is_refused(number):
    with pytest.raises(PipelineError) as raised:
        question(number)

    assert (raised.value.code, str(len(QUESTIONS)) in raised.value.hint) == ("PRACTICE.NO_QUESTION", True)


def test_an_unknown_choice_is_refused_with_those_that_exist():
    with pytest.raises(PipelineError) as raised:
        question(1).is_right("E")

    assert (raised.value.code, "A, B, C, D" in raised.value.hint) == ("PRACTICE.NO_CHOICE", True)
