"""State that goes by the clock."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lint.program import Program
from headrace.lint.rules import Hit, rule
from headrace.lint.values import Frame, Imported, Literal, Value, text_of

# Which argument says by what the state goes, in its place and by its name, and what says that it is the clock.
_STATEFUL = {
    "applyInPandasWithState": (4, "timeoutConf", "processingtimetimeout"),
    "transformWithState": (3, "timeMode", "processingtime"),
    "transformWithStateInPandas": (3, "timeMode", "processingtime"),
}


def _never_ending(program: Program) -> Iterator[Hit]:
    for started in program.facts.started:
        triggers = [step for step in started.steps if step.name == "trigger"]
        ends = triggers and triggers[-1].keywords.get("availableNow") == Literal(value=True)
        name = _by_clock(started.writer.frame) if ends else None
        if name is not None:
            message = f'"{name}" uses processing time, so this query never ends'
            yield Hit(program.at_name(triggers[-1].node), message)


def _by_clock(frame: Frame) -> str | None:
    """The step of a stream whose state goes by the clock, if one's does."""
    for part in frame.lineage():
        step = part.step
        if step is not None and part.streaming and step.name in _STATEFUL:
            position, name, clock = _STATEFUL[step.name]
            if _said(step.given(position, name)).lower() == clock:
                return step.name
    return None


def _said(value: Value | None) -> str:
    """A word that may be a text, or a constant of Spark's."""
    return value.name.rpartition(".")[2] if isinstance(value, Imported) else text_of(value) or ""


RULES = (rule("never-ending-timeout", _never_ending),)
