"""State with processing-time timeouts."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lint.program import Program
from headrace.lint.rules import Violation, rule
from headrace.lint.values import Frame, Imported, Literal, Value, text_of

# The position and name of the argument with the time mode, and its value for processing time.
_STATEFUL = {
    "applyInPandasWithState": (4, "timeoutConf", "processingtimetimeout"),
    "transformWithState": (3, "timeMode", "processingtime"),
    "transformWithStateInPandas": (3, "timeMode", "processingtime"),
}


def _never_ending(program: Program) -> Iterator[Violation]:
    for started in program.facts.started:
        triggers = [step for step in started.steps if step.name == "trigger"]
        ends = triggers and triggers[-1].keywords.get("availableNow") == Literal(value=True)
        name = _by_clock(started.writer.frame) if ends else None
        if name is not None:
            message = f'"{name}" uses processing time, so this query never ends'
            yield Violation(program.span_of_name(triggers[-1].node), message)


def _by_clock(frame: Frame) -> str | None:
    """The name of the stateful step that uses processing time, if there is one."""
    for part in frame.lineage():
        step = part.step
        if step is not None and part.streaming and step.name in _STATEFUL:
            position, name, clock = _STATEFUL[step.name]
            if _word(step.argument(position, name)).lower() == clock:
                return step.name
    return None


def _word(value: Value | None) -> str:
    """A string, or the name of a constant of Spark."""
    return value.name.rpartition(".")[2] if isinstance(value, Imported) else text_of(value) or ""


RULES = (rule("never-ending-timeout", _never_ending),)
