"""All decisions of a design, in the order in which a reader needs them."""

from __future__ import annotations

from headrace.assistant.design.assumed import Assumed
from headrace.assistant.design.blueprint import Blueprint
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.decisions.guarantees import guarantee_decisions
from headrace.assistant.design.decisions.layout import layout_decisions
from headrace.assistant.design.decisions.rates import rate_decisions
from headrace.assistant.design.decisions.records import record_decisions
from headrace.assistant.design.decisions.samples import sample_decisions
from headrace.assistant.design.decisions.state import state_decisions
from headrace.assistant.design.decisions.triggers import trigger_decisions
from headrace.assistant.design.decisions.usage import default_decisions, usage_decisions
from headrace.assistant.design.decisions.watermarks import delay_s, watermark_decisions
from headrace.assistant.design.questions import Question


def decide(blueprint: Blueprint, taken: tuple[Question, ...], assumed: Assumed) -> tuple[Decision, ...]:
    """The decisions; their ids are distinct.

    Args:
        blueprint: the datasets.
        taken: the questions that were answered by their defaults.
        assumed: where other answers come from that the requirements did not state.
    """
    delay = delay_s(blueprint.requirements)
    return (
        *usage_decisions(blueprint),
        *trigger_decisions(blueprint),
        *rate_decisions(blueprint),
        *watermark_decisions(blueprint, assumed.origin_of_delay),
        *state_decisions(blueprint, delay),
        *record_decisions(blueprint),
        *layout_decisions(blueprint),
        *guarantee_decisions(blueprint),
        *default_decisions(taken),
        *sample_decisions(assumed.findings),
    )
