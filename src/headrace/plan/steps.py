"""The plan: for each flow one decision with its reason, and what happens to each table first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow, ResolvedGraph
from headrace.graph.unavailable_sources import AwayFlow
from headrace.model.names import QualifiedName
from headrace.model.triggers import AVAILABLE_NOW, Trigger
from headrace.model.type_changes import FieldChange
from headrace.model.views import ViewDefinition
from headrace.plan.backfills import Load
from headrace.plan.inactive import Inactive
from headrace.plan.renames import Rename
from headrace.plan.source_retention import Loss, Restart, SourceStart


class TableChange(str, Enum):
    """What happens to a table before its flows run."""

    CREATE = "create"
    EVOLVE = "evolve"
    RESET = "reset"


@dataclass(frozen=True)
class TableStep:
    """A table is created, changed, or cleared.

    ``columns`` are those that are added, ``widened`` those that get a wider type and ``relaxed`` those that may be NULL
    from now on; ``properties``, ``comment`` and ``column_comments`` are what is set; ``cluster_by`` is None unless the
    clustering changes.
    """

    dataset: QualifiedName
    change: TableChange
    reason: str
    columns: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    cluster_by: tuple[str, ...] | None = None
    widened: tuple[FieldChange, ...] = ()
    relaxed: tuple[str, ...] = ()
    column_comments: tuple[tuple[str, str], ...] = ()
    # Rows are cleared that cannot be read again.
    cut: bool = False
    # Nothing is asked any more about what is cleared.
    accepted: bool = False

    def describe(self) -> str:
        """One line for the reader."""
        return f"{self.change.value:<10} {self.dataset}: {self.reason}"


class ViewChange(str, Enum):
    """What happens to the stored definition of a persisted view."""

    CREATE = "create"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True)
class ViewStep:
    """A definition is stored, replaced or removed; ``definition`` is None when it is removed."""

    dataset: QualifiedName
    change: ViewChange
    reason: str
    definition: ViewDefinition | None = None

    def describe(self) -> str:
        """One line for the reader."""
        return f"{self.change.value:<10} view {self.dataset}: {self.reason}"


class Decision(str, Enum):
    """What happens to a flow."""

    START = "start"
    UP_TO_DATE = "up to date"
    EXCLUDE = "exclude"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class FlowStep:
    """A flow is started, left alone, not part of the update, or fails because its stores do not agree."""

    flow: ResolvedFlow
    decision: Decision
    reason: str
    # Progress is dropped first: the flow starts in a new epoch.
    reset: bool = False
    # Started only when its inputs have news by then: an upstream flow runs first and may bring nothing.
    conditional: bool = False
    trigger: Trigger = AVAILABLE_NOW
    # Started to wait for news, of which there are none yet.
    waits: bool = False
    # Progress is dropped and the table kept.
    restart: Restart | None = None
    # Its query is run as a batch over a range first, and then as a stream unless that is all.
    load: Load | None = None
    streams: bool = True
    # Why it cannot run, for one that fails.
    error: PipelineError | None = None

    def describe(self) -> str:
        """One line for the reader, and one for each source whose reading starts elsewhere."""
        often = f", {self.trigger.describe()}" if self.trigger.kind.goes_on else ""
        lines = [f"{self.decision.value:<10} {self.flow.name}: {self.reason}{often}"]
        return "\n".join([*lines, *(f"             reads {s.describe()}" for s in self.sources_read_anew)])

    @property
    def works(self) -> bool:
        """True when there is something for the flow to do now."""
        return self.decision is Decision.START and not self.waits

    @property
    def sources_read_anew(self) -> tuple[SourceStart, ...]:
        """Where the sources of a flow start whose progress is dropped while its table is kept."""
        return self.restart.sources if self.restart else ()


@dataclass(frozen=True)
class UnavailableStep:
    """A flow that could not be resolved because a source is away: it fails, or is skipped, while the others run."""

    away: AwayFlow
    decision: Decision

    @property
    def reason(self) -> str:
        """Why it is not run, in a line."""
        return "not selected" if self.decision is Decision.EXCLUDE else self.away.reason

    def describe(self) -> str:
        """One line for the reader."""
        return f"{self.decision.value:<10} {self.away.name}: {self.reason}"


@dataclass(frozen=True)
class Plan:
    """Every step of an update, in an order that respects what reads what."""

    graph: ResolvedGraph
    tables: tuple[TableStep, ...]
    flows: tuple[FlowStep, ...]
    # The update goes on until it is stopped.
    continuous: bool = False
    views: tuple[ViewStep, ...] = ()
    # What full refreshes clear.
    losses: tuple[Loss, ...] = ()
    # What the storage holds and the code does not define.
    inactive: tuple[Inactive, ...] = ()
    # Carried over before anything else.
    renames: tuple[Rename, ...] = ()
    # What cannot be run now.
    away: tuple[UnavailableStep, ...] = ()

    @property
    def empty(self) -> bool:
        """True when ``run`` would do nothing."""
        if any(step.decision is not Decision.EXCLUDE for step in self.away):
            return False
        if any(step.decision is Decision.FAIL for step in self.flows):
            return False
        return not (self.renames or self.tables or self.views) and all(not step.works for step in self.flows)

    def step_for(self, flow: str) -> FlowStep:
        """The step of a flow."""
        return next(step for step in self.flows if step.flow.name == flow)

    def table_step_for(self, name: QualifiedName) -> TableStep | None:
        """What happens to a table before its flows run, or None."""
        return next((step for step in self.tables if step.dataset == name), None)

    def describe(self) -> str:
        """The plan as stable text; what is left alone comes last."""
        lines = [rename.describe() for rename in self.renames]
        lines += [step.describe() for step in self.tables]
        lines += [step.describe() for step in self.views]
        lines += [loss.describe() for loss in self.losses]
        lines += [step.describe() for step in self.flows if step.decision is Decision.START]
        lines += [step.describe() for step in self.flows if step.decision is Decision.FAIL]
        lines += [step.describe() for step in self.away]
        lines += [step.describe() for step in self.flows if step.decision not in (Decision.START, Decision.FAIL)]
        if self.empty:
            lines.append("nothing to do")
        lines += [left.describe() for left in self.inactive]
        return "\n".join([*lines, *(f"warning    {flow.name}: {reason}" for flow, reason in self.graph.cautions)])

    def to_json(self) -> dict[str, Any]:
        """The plan for programs; ``warnings`` are there where there are some."""
        warnings = [{"flow": flow.name, "reason": reason} for flow, reason in self.graph.cautions]
        return {
            "empty": self.empty,
            "tables": [
                {
                    "dataset": str(step.dataset),
                    "change": step.change.value,
                    "reason": step.reason,
                    "columns": list(step.columns),
                    "widened": [{"column": str(f), "from": f.before, "to": f.after} for f in step.widened],
                    "relaxed": list(step.relaxed),
                    "properties": dict(step.properties),
                    "comment": step.comment,
                    "column_comments": dict(step.column_comments),
                    "cluster_by": None if step.cluster_by is None else list(step.cluster_by),
                    "loses_rows": step.cut,
                }
                for step in self.tables
            ],
            "views": [
                {"dataset": str(step.dataset), "change": step.change.value, "reason": step.reason}
                for step in self.views
            ],
            "flows": [
                {
                    "flow": step.flow.name,
                    "dataset": str(step.flow.target),
                    "decision": step.decision.value,
                    "reason": step.reason,
                    "reset": step.reset,
                    "trigger": step.trigger.describe(),
                    "restart": step.restart.to_json() if step.restart else None,
                    "load": _load_said(step.load) if step.load else None,
                    **({"error": step.error.to_json()} if step.error else {}),
                }
                for step in self.flows
            ],
            "losses": [loss.to_json() for loss in self.losses],
            "renames": [rename.to_json() for rename in self.renames],
            "inactive": [left.to_json() for left in self.inactive],
            "away": [
                {
                    "flow": step.away.name,
                    "dataset": str(step.away.target),
                    "decision": step.decision.value,
                    "reason": step.reason,
                    "error": step.away.error.to_json(),
                }
                for step in self.away
            ],
            **({"warnings": warnings} if warnings else {}),
        }


def _load_said(load: Load) -> dict[str, Any]:
    ranges = [found.describe() for found in load.ranges]
    return {"epoch": load.epoch, "ranges": ranges, "stream_begins_behind": load.fences}
