"""A design: from requirements to decisions and to the files of a project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.assistant.design.assumed import NOTHING_ASSUMED, Assumed
from headrace.assistant.design.blueprint import Blueprint, Dataset, make_blueprint
from headrace.assistant.design.checklist import Criterion, checklist
from headrace.assistant.design.decisions.collect import decide
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.decisions.state import StateEstimate, state_estimates
from headrace.assistant.design.decisions.watermarks import delay_s, measured_origin
from headrace.assistant.design.files.render import render_files
from headrace.assistant.design.questions import Question, needs_lateness, open_questions, with_defaults
from headrace.assistant.design.requirements import Requirements
from headrace.errors import PipelineError
from headrace.model.lateness import Lateness


@dataclass(frozen=True)
class Design:
    """A design: its datasets, its decisions, and the files of the project by path.

    Attributes:
        assumed: where the answers come from that the requirements did not state.
    """

    blueprint: Blueprint
    decisions: tuple[Decision, ...]
    state: tuple[StateEstimate, ...]
    checklist: tuple[Criterion, ...]
    files: Mapping[str, str]
    assumed: Assumed

    def to_json(self) -> dict[str, Any]:
        """The design as one JSON object."""
        return {
            "decisions": [decision.to_json() for decision in self.decisions],
            "datasets": [_dataset_json(dataset) for dataset in self.blueprint.datasets],
            "state_estimate": [estimate.to_json() for estimate in self.state],
            "mermaid": self.files["design.mmd"],
            "files": [{"path": path, "text": text} for path, text in self.files.items()],
            "checklist": [criterion.to_json() for criterion in self.checklist],
        }


def make_design(
    requirements: Requirements,
    *,
    defaults: bool = False,
    measured: Lateness | None = None,
    assumed: Assumed = NOTHING_ASSUMED,
) -> Design:
    """The design of requirements.

    Args:
        requirements: as parsed, with the answers that samples propose.
        defaults: whether open questions are answered by their defaults.
        measured: the lateness of past events, if the requirements ask for it.
        assumed: where answers come from; its open questions are answered by their defaults.

    Raises:
        PipelineError: DESIGN.OPEN_QUESTIONS: answers are missing; DESIGN.NOT_MEASURED: there is no measured lateness.
        Problems: outputs that cannot be built.
    """
    questions = open_questions(requirements)
    missing = [one for one in questions if one.is_needed or not (defaults or one.id in assumed.defaults)]
    if missing:
        raise open_questions_error(missing, requirements.file)
    if measured is not None:
        assumed = replace(assumed, delay=measured_origin(measured))
    assumed = replace(assumed, defaults=tuple(question.id for question in questions))
    blueprint = make_blueprint(_with_measured_delay(with_defaults(requirements), measured))
    decisions = decide(blueprint, questions, assumed)
    delay = delay_s(blueprint.requirements)
    criteria = checklist(blueprint, decisions, delay)
    files = render_files(blueprint, decisions, criteria, delay, assumed.marks)
    return Design(blueprint, decisions, state_estimates(blueprint, delay), criteria, files, assumed)


def _with_measured_delay(requirements: Requirements, measured: Lateness | None) -> Requirements:
    """The requirements with the delay that was measured, so that the design can be made again without the table."""
    lateness = requirements.lateness
    if lateness.measure_from is None or not needs_lateness(requirements):
        return requirements
    if measured is None:
        raise PipelineError("DESIGN.NOT_MEASURED", table=lateness.measure_from)
    known = replace(lateness, within_s=float(measured.suggested_s or 1), measure_from=None)
    return replace(requirements, lateness=known)


def open_questions_error(missing: list[Question], file: str) -> PipelineError:
    """The error that names the open questions."""
    return PipelineError("DESIGN.OPEN_QUESTIONS", file=file, questions=", ".join(one.id for one in missing))


def _dataset_json(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "kind": dataset.kind.value,
        "layer": dataset.kind.layer or None,
        "source": dataset.source.name,
        "reads": list(dataset.reads),
        "columns": [column.name for column in dataset.columns],
        "event_time": dataset.event_time,
        "keys": list(dataset.keys),
        "streaming": dataset.is_stream,
        "latency_s": dataset.latency_s,
    }
