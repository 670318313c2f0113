"""The plan: one decision with its reason for each flow, and the step for each table before its flows run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import StoredFlow
from headrace.graph.unavailable_sources import UnavailableFlow
from headrace.model.names import QualifiedName
from headrace.model.outcome import NOT_SELECTED, unselected_text
from headrace.model.triggers import AVAILABLE_NOW, Trigger
from headrace.model.type_changes import FieldChange
from headrace.model.views import ViewDefinition
from headrace.plan.backfills import Backfill
from headrace.plan.changes import Change, describe_changes
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
    """A table is created, evolved, or cleared.

    ``columns`` are added, ``widened`` get a wider type and ``relaxed`` become nullable. ``properties``, ``comment`` and
    ``column_comments`` are set. ``cluster_by`` is None unless the clustering changes.
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
    # Clears rows that cannot be read again.
    loses_rows: bool = False
    # The user accepted the loss of rows.
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
    """A definition is stored, replaced or removed; ``definition`` is None if it is removed."""

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
    """A flow starts, is up to date, is excluded, or fails because the stores of its progress disagree."""

    flow: StoredFlow
    decision: Decision
    reason: str
    # The flow starts over in a new epoch.
    reset: bool = False
    # Starts only if its inputs have changed by then: an upstream flow runs first and may write nothing.
    conditional: bool = False
    trigger: Trigger = AVAILABLE_NOW
    # Starts without new input, to wait for it.
    is_waiting: bool = False
    # The checkpoint is reset and the table keeps its rows.
    restart: Restart | None = None
    # Its query first runs as a batch over a range, and then as a stream if ``streams``.
    backfill: Backfill | None = None
    streams: bool = True
    # Why it fails.
    error: PipelineError | None = None
    # It reads a table that the update clears, and fails at its next start.
    is_stuck: bool = False

    def describe(self) -> str:
        """One line for the reader, and one for each source with a new start position."""
        often = f", {self.trigger.describe()}" if self.trigger.kind.is_continuous else ""
        lines = [f"{self.decision.value:<10} {self.flow.name}: {self.reason}{often}"]
        return "\n".join([*lines, *(f"             reads {s.describe()}" for s in self.restarted_sources)])

    @property
    def has_work(self) -> bool:
        """True if the flow has work to do now."""
        return self.decision is Decision.START and not self.is_waiting

    @property
    def restarted_sources(self) -> tuple[SourceStart, ...]:
        """The start positions of the sources if the checkpoint is reset."""
        return self.restart.sources if self.restart else ()


@dataclass(frozen=True)
class UnavailableStep:
    """A flow that could not be resolved because a source is unavailable. It fails or is skipped; the others run."""

    flow: UnavailableFlow
    decision: Decision

    @property
    def reason(self) -> str:
        """Why it does not run, in one line."""
        return NOT_SELECTED if self.decision is Decision.EXCLUDE else self.flow.reason

    def describe(self) -> str:
        """One line for the reader."""
        return f"{self.decision.value:<10} {self.flow.name}: {self.reason}"


@dataclass(frozen=True)
class PlanNotice:
    """What the user should know about the selection before the update writes anything.

    Attributes:
        code: of the warning in the event log.
        message: for the reader.
        facts: names for programs, and ``command`` if there is one to run.
    """

    code: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The notice as one JSON object."""
        return {"code": self.code, "message": self.message, **self.facts}


NOTHING_MODIFIED = PlanNotice(
    "SELECTION.NOTHING_MODIFIED",
    'nothing is selected, because nothing is modified: "state:modified" finds no dataset whose code or settings differ '
    "from what is deployed",
)


@dataclass(frozen=True)
class Plan:
    """Every step of an update, in topological order."""

    graph: ResolvedGraph
    tables: tuple[TableStep, ...]
    flows: tuple[FlowStep, ...]
    # The update runs until it is stopped.
    continuous: bool = False
    views: tuple[ViewStep, ...] = ()
    # What full refreshes clear.
    losses: tuple[Loss, ...] = ()
    # Datasets and flows in the storage that the code does not define.
    inactive: tuple[Inactive, ...] = ()
    # Run before anything else.
    renames: tuple[Rename, ...] = ()
    # Flows with unavailable sources.
    unavailable: tuple[UnavailableStep, ...] = ()
    notices: tuple[PlanNotice, ...] = ()
    # What the steps change in what is deployed, worst first.
    changes: tuple[Change, ...] = ()
    # Why the update does not run.
    refused: tuple[PipelineError, ...] = ()

    @property
    def empty(self) -> bool:
        """True if ``run`` would do nothing."""
        if self.refused or any(step.decision is not Decision.EXCLUDE for step in self.unavailable):
            return False
        if any(step.decision is Decision.FAIL for step in self.flows):
            return False
        return not (self.renames or self.tables or self.views) and all(not step.has_work for step in self.flows)

    def step_for(self, flow: str) -> FlowStep:
        """The step of a flow."""
        return self._by_flow[flow]

    def table_step_for(self, name: QualifiedName) -> TableStep | None:
        """What happens to a table before its flows run, or None."""
        return self._by_table.get(name)

    @cached_property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        """The flows that feed the inputs of each flow, also those whose sources are unavailable."""
        unavailable: dict[QualifiedName, list[str]] = {}
        for step in self.unavailable:
            unavailable.setdefault(step.flow.target, []).append(step.flow.name)
        return {step.flow.name: tuple(self._upstream_of(step.flow, unavailable)) for step in self.flows}

    def _upstream_of(self, flow: StoredFlow, unavailable: Mapping[QualifiedName, Sequence[str]]) -> Iterator[str]:
        names = [given.name for given in self.graph.stored_inputs(flow)]
        for name in names:
            yield from (found.name for found in self.graph.flows_into(name))
        for name in names:
            yield from unavailable.get(name, ())

    def _published(self) -> Iterator[tuple[QualifiedName, tuple[str, str, str]]]:
        """The tables that change, with their names in a metastore, for those that are published."""
        for step in self.tables:
            known = self.graph.by_name.get(step.dataset)
            if known is not None and known.published_as is not None:
                yield known.name, known.published_as

    @cached_property
    def _by_flow(self) -> dict[str, FlowStep]:
        return {step.flow.name: step for step in reversed(self.flows)}

    @cached_property
    def _by_table(self) -> dict[QualifiedName, TableStep]:
        return {step.dataset: step for step in reversed(self.tables)}

    def describe(self) -> str:
        """The plan as stable text; flows that do not run come last, and those outside of the selection as a number."""
        resting = [step for step in self.flows if step.decision not in (Decision.START, Decision.FAIL)]
        lines = describe_changes(self.changes)
        lines += [rename.describe() for rename in self.renames]
        lines += [step.describe() for step in self.tables]
        lines += [f"publish    {name}: as {'.'.join(name_in_catalog)}" for name, name_in_catalog in self._published()]
        lines += [step.describe() for step in self.views]
        lines += [loss.describe() for loss in self.losses]
        lines += [step.describe() for step in self.flows if step.decision is Decision.START]
        lines += [step.describe() for step in self.flows if step.decision is Decision.FAIL]
        lines += [step.describe() for step in self.unavailable if step.reason != NOT_SELECTED]
        lines += [step.describe() for step in resting if step.reason != NOT_SELECTED]
        unselected = [*(step.reason for step in resting), *(step.reason for step in self.unavailable)].count(
            NOT_SELECTED
        )
        lines += [unselected_text(unselected)] if unselected else []
        if self.empty:
            lines.append("nothing to do")
        lines += [found.describe() for found in self.inactive]
        lines += [f"warning    {notice.message}" for notice in self.notices]
        return "\n".join([*lines, *(f"warning    {flow.name}: {reason}" for flow, reason in self.graph.warnings)])

    def to_json(self) -> dict[str, Any]:
        """The plan for programs. ``warnings`` and ``notices`` are present only if there are any."""
        warnings = [{"flow": flow.name, "reason": reason} for flow, reason in self.graph.warnings]
        return {
            "empty": self.empty,
            "changes": [change.to_json() for change in self.changes],
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
                    "loses_rows": step.loses_rows,
                }
                for step in self.tables
            ],
            **(
                {"published": {str(k): ".".join(v) for k, v in published}}
                if (published := [*self._published()])
                else {}
            ),
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
                    "load": _backfill_json(step.backfill) if step.backfill else None,
                    **({"error": step.error.to_json()} if step.error else {}),
                }
                for step in self.flows
            ],
            "losses": [loss.to_json() for loss in self.losses],
            "renames": [rename.to_json() for rename in self.renames],
            "inactive": [found.to_json() for found in self.inactive],
            "away": [
                {
                    "flow": step.flow.name,
                    "dataset": str(step.flow.target),
                    "decision": step.decision.value,
                    "reason": step.reason,
                    "error": step.flow.error.to_json(),
                }
                for step in self.unavailable
            ],
            **({"notices": [notice.to_json() for notice in self.notices]} if self.notices else {}),
            **({"warnings": warnings} if warnings else {}),
        }


def _backfill_json(backfill: Backfill) -> dict[str, Any]:
    ranges = [found.describe() for found in backfill.ranges]
    return {"epoch": backfill.epoch, "ranges": ranges, "stream_begins_behind": backfill.stream_starts_after}
