"""A plan as lines, one for each dataset, view and flow, and how the lines of two plans differ. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

_DATA = "data"
_STATES = {"start": "to run", "fail": "to fail", "skip": "skipped", "exclude": "excluded"}


class Sign(str, Enum):
    """How a line differs from the plan before."""

    NEW = "+"
    GONE = "-"
    OTHER = "~"


@dataclass(frozen=True)
class PlanLine:
    """What happens to one thing.

    Attributes:
        kind: ``change`` of what is deployed, ``table``, ``view``, ``flow``, ``storage`` or ``warning``.
        name: of the thing.
        verb: what happens.
        why: the reason.
    """

    kind: str
    name: str
    verb: str
    why: str

    @property
    def text(self) -> str:
        """The line."""
        what = f"{self.kind} {self.name}" if self.kind in ("table", "view") else self.name
        return f"{self.verb:<12} {what}: {self.why}"


@dataclass(frozen=True)
class PlanDifference:
    """A line that differs; ``before`` is what it was if it has changed."""

    sign: Sign
    line: PlanLine
    before: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The difference for programs."""
        return {
            "sign": self.sign.value,
            "kind": self.line.kind,
            "name": self.line.name,
            "text": self.line.text,
            "before": self.before,
        }


def plan_lines(plan: Mapping[str, Any]) -> tuple[PlanLine, ...]:
    """The lines of a plan, given as its JSON."""
    return tuple(_lines(plan))


def datasets_in(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the datasets and sinks in a plan, given as its JSON, in its order."""
    steps = [step for part in ("tables", "views", "flows", "away") for step in plan.get(part) or ()]
    return tuple(dict.fromkeys(step["dataset"] for step in steps))


def differences(before: tuple[PlanLine, ...], after: tuple[PlanLine, ...]) -> tuple[PlanDifference, ...]:
    """How the lines of a plan differ from those of the one before.

    Law: there are none exactly if both have the same lines.
    """
    old = {(line.kind, line.name): line for line in before}
    new = {(line.kind, line.name): line for line in after}
    found = []
    for key, line in new.items():
        if key not in old:
            found.append(PlanDifference(Sign.NEW, line))
        elif old[key] != line:
            found.append(PlanDifference(Sign.OTHER, line, old[key].text))
    found += [PlanDifference(Sign.GONE, line) for key, line in old.items() if key not in new]
    return tuple(found)


def summary(lines: tuple[PlanLine, ...]) -> str:
    """What a run would do, in a few words."""
    flows = Counter(line.verb for line in lines if line.kind == "flow")
    others = Counter(f"{line.verb} {line.kind}" for line in lines if line.kind in ("table", "view"))
    parts = [f"{what} ({count})" if count > 1 else what for what, count in others.items()]
    parts += [f"{count} {'flow' if count == 1 else 'flows'} {_STATES.get(verb, verb)}" for verb, count in flows.items()]
    return ", ".join(parts) or "nothing to do"


def _lines(plan: Mapping[str, Any]) -> Iterator[PlanLine]:
    for change in plan.get("changes") or ():
        # New input alone is no change.
        if change["class"] != _DATA:
            yield PlanLine("change", change["flow"] or change["dataset"], change["class"], change["why"])
    for rename in plan.get("renames") or ():
        yield PlanLine("table", rename["to"], "rename", f"takes over {rename['what']} {rename['from']}")
    for step in plan.get("tables") or ():
        yield PlanLine("table", step["dataset"], step["change"], step["reason"])
    for step in plan.get("views") or ():
        yield PlanLine("view", step["dataset"], step["change"], step["reason"])
    for step in plan.get("flows") or ():
        reason = step["reason"] + (", starts over" if step["reset"] else "")
        yield PlanLine("flow", step["flow"], step["decision"], reason)
    for step in plan.get("away") or ():
        yield PlanLine("flow", step["flow"], step["decision"], step["reason"])
    for one in plan.get("inactive") or ():
        yield PlanLine("storage", one["flow"] or one["dataset"], "keep", "the code does not define it any more")
    for warning in plan.get("warnings") or ():
        yield PlanLine("warning", warning["flow"], "warning", warning["reason"])
