"""Checks a project as it is now: all its problems, or what a run would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import PipelineError
from headrace.project.development.plan_lines import PlanLine, datasets_in, plan_lines
from headrace.project.requests.verb_call import VerbAnswer, VerbCall


@dataclass(frozen=True)
class Check:
    """What was found.

    Attributes:
        problems: as JSON; none if the project is right.
        lines: of the plan; none if there is no plan.
        has_plan: whether the project could be planned.
        datasets: the names of the datasets and sinks in the plan.
        duration_s: how long it took.
    """

    problems: tuple[Mapping[str, Any], ...]
    lines: tuple[PlanLine, ...] = ()
    has_plan: bool = False
    datasets: tuple[str, ...] = ()
    duration_s: float = 0.0


def check_project(call: VerbCall, is_canceled: Callable[[], bool] = bool) -> Check:
    """Plan an update of everything, which also validates the project. Writes nothing.

    Args:
        call: runs verbs of the project.
        is_canceled: whether nobody waits for it any more.
    """
    # One verb finds both: a plan has all problems that a validation has.
    try:
        answer = call.run(["plan", "--wait"], is_canceled=is_canceled)
    except OSError as error:
        answer = VerbAnswer(1, notices=(error.strerror or str(error),))
    return check_of(answer)


def check_of(answer: VerbAnswer) -> Check:
    """What the answer of ``headrace plan`` says."""
    if answer.code == 0 and isinstance(answer.document, Mapping):
        plan = answer.document
        return Check((), plan_lines(plan), has_plan=True, datasets=datasets_in(plan), duration_s=answer.duration_s)
    problems = answer.problems
    if not problems:
        last = answer.notices[-1] if answer.notices else f"it ended with code {answer.code}"
        problems = [PipelineError("DEV.NO_ANSWER", reason=last).to_json()]
    return Check(tuple(problems), duration_s=answer.duration_s)
