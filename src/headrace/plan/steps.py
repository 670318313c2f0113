"""The plan: for each flow one decision with its reason, and what happens to each table first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.graph.resolved import ResolvedFlow, ResolvedGraph
from headrace.model.names import QualifiedName


class TableChange(str, Enum):
    """What happens to a table before its flows run."""

    CREATE = "create"
    EVOLVE = "evolve"
    RESET = "reset"


@dataclass(frozen=True)
class TableStep:
    """A table is created, changed, or cleared.

    ``columns`` are those that are added, ``properties`` and ``comment`` what is set; ``cluster_by`` is None unless the
    clustering changes.
    """

    dataset: QualifiedName
    change: TableChange
    reason: str
    columns: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    cluster_by: tuple[str, ...] | None = None

    def describe(self) -> str:
        """One line for the reader."""
        return f"{self.change.value:<10} {self.dataset}: {self.reason}"


class Decision(str, Enum):
    """What happens to a flow."""

    START = "start"
    UP_TO_DATE = "up to date"
    EXCLUDE = "exclude"


@dataclass(frozen=True)
class FlowStep:
    """A flow is started, left alone, or not part of the update."""

    flow: ResolvedFlow
    decision: Decision
    reason: str
    # Progress is dropped first: the flow starts in a new epoch.
    reset: bool = False
    # Started only when its inputs have news by then: an upstream flow runs first and may bring nothing.
    conditional: bool = False

    def describe(self) -> str:
        """One line for the reader."""
        return f"{self.decision.value:<10} {self.flow.name}: {self.reason}"


@dataclass(frozen=True)
class Plan:
    """Every step of an update, in an order that respects what reads what."""

    graph: ResolvedGraph
    tables: tuple[TableStep, ...]
    flows: tuple[FlowStep, ...]

    @property
    def empty(self) -> bool:
        """True when ``run`` would do nothing."""
        return not self.tables and all(step.decision is not Decision.START for step in self.flows)

    def step_for(self, flow: str) -> FlowStep:
        """The step of a flow."""
        return next(step for step in self.flows if step.flow.name == flow)

    def table_step_for(self, name: QualifiedName) -> TableStep | None:
        """What happens to a table before its flows run, or None."""
        return next((step for step in self.tables if step.dataset == name), None)

    def describe(self) -> str:
        """The plan as stable text; what is left alone comes last."""
        lines = [step.describe() for step in self.tables]
        lines += [step.describe() for step in self.flows if step.decision is Decision.START]
        lines += [step.describe() for step in self.flows if step.decision is not Decision.START]
        if self.empty:
            lines.append("nothing to do")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The plan for programs."""
        return {
            "empty": self.empty,
            "tables": [
                {
                    "dataset": str(step.dataset),
                    "change": step.change.value,
                    "reason": step.reason,
                    "columns": list(step.columns),
                }
                for step in self.tables
            ],
            "flows": [
                {
                    "flow": step.flow.name,
                    "dataset": str(step.flow.target),
                    "decision": step.decision.value,
                    "reason": step.reason,
                    "reset": step.reset,
                }
                for step in self.flows
            ],
        }
