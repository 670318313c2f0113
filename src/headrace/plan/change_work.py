"""What the changes of a plan clear, read again and leave as it is, as far as that is known without Spark."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.graph.resolved_flows import AppendFlow, ResolvedFlow
from headrace.graph.starts import StartKind
from headrace.model.change_classes import ChangeClass
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.plan.backfills import no_backfill_reason
from headrace.plan.change_classes import below, changes_of
from headrace.plan.changes import Change, OldRows, Work
from headrace.plan.source_retention import SourceRetention
from headrace.plan.steps import Plan

_READS_AGAIN = (ChangeClass.DESTRUCTIVE, ChangeClass.REBUILD, ChangeClass.REDELIVER, ChangeClass.RECOMPUTE)


class DeployedFlows(Protocol):
    """Reads what flows have done before. It never writes."""

    def has_run(self, flow: ResolvedFlow) -> bool:
        """True if the flow ran before."""

    def has_new_code(self, flow: ResolvedFlow) -> bool:
        """True if the flow ran before, with other code, settings or input columns."""

    def input_of(self, flow: ResolvedFlow, inputs: Collection[QualifiedName]) -> Work:
        """All rows and bytes that the flow reads if it starts over; *inputs* are the tables that it reads."""

    def written_by(self, flow: ResolvedFlow) -> OldRows:
        """The rows of the flow's table, and how far the flow has read its sources."""

    def source_retention(self, flow: ResolvedFlow) -> tuple[SourceRetention, ...]:
        """The sources of the flow, and which of the rows that it read cannot be read again."""

    def core_seconds_per_row(self, flows: Collection[str]) -> Mapping[str, float]:
        """What a row costs each flow; flows of which that is unknown are missing."""


def with_changes(plan: Plan, deployed: DeployedFlows) -> Plan:
    """The plan with its changes, and all that is known of them."""
    return replace(plan, changes=_Measures(plan, deployed).measured(changes_of(plan, deployed)))


@dataclass(frozen=True)
class _Measures:
    plan: Plan
    deployed: DeployedFlows

    def measured(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """The changes with what they clear, read again and keep."""
        found = tuple(changes)
        flows = {flow.name for change in found if _reads_again(change) for flow in self._flows(change)}
        costs = self.deployed.core_seconds_per_row(flows) if flows else {}
        cleared = {str(loss.dataset): loss.rows + loss.quarantined for loss in self.plan.losses}
        return tuple(self._measured(change, cleared, costs) for change in found)

    def _measured(self, change: Change, cleared: Mapping[str, int], costs: Mapping[str, float]) -> Change:
        if change.change_class is ChangeClass.FORWARD_ONLY:
            (flow,) = self._flows(change)
            return replace(change, old_rows=self._old_rows(flow))
        if not _reads_again(change):
            return change
        is_cleared = change.change_class in (ChangeClass.DESTRUCTIVE, ChangeClass.REBUILD)
        rows = cleared.get(change.dataset, 0) if is_cleared else 0
        if not self._from_the_start(change):
            return change
        work = [self._work(flow, costs) for flow in self._flows(change)]
        return replace(change, rows_cleared=rows, work=_sum(work))

    def _work(self, flow: ResolvedFlow, costs: Mapping[str, float]) -> Work:
        inputs = [given.name for given in self.plan.graph.stored_inputs(flow)]
        work, cost = self.deployed.input_of(flow, inputs), costs.get(flow.name)
        if work.rows is None or cost is None:
            return work
        return replace(work, core_seconds=work.rows * cost)

    def _from_the_start(self, change: Change) -> bool:
        """False for a flow that starts over at another position than the earliest."""
        restart = self.plan.step_for(change.flow).restart if change.flow is not None else None
        return restart is None or restart.start.kind is StartKind.EARLIEST

    def _flows(self, change: Change) -> tuple[ResolvedFlow, ...]:
        graph = self.plan.graph
        if change.flow is not None:
            return (graph.by_flow[change.flow],)
        return tuple(flow for flow in graph.stored_flows if str(flow.target) == change.dataset)

    def _old_rows(self, flow: ResolvedFlow) -> OldRows:
        found = self.deployed.written_by(flow)
        if found.rows == 0:
            return found
        lost = [source for source in self.deployed.source_retention(flow) if source.unrecoverable]
        is_sink = self.plan.graph.by_name[flow.target].kind is Kind.SINK
        if is_sink and no_backfill_reason(flow) is None:
            command = f"headrace backfill {shlex.quote(flow.name)} --again"
            return replace(found, mend=command, caution="the sink gets these rows twice")
        if lost and isinstance(flow, AppendFlow) and no_backfill_reason(flow) is None:
            command = f"headrace backfill {shlex.quote(flow.name)} --again"
            caution = f"delete the rows first that it computes again; {lost[0].describe()}"
            return replace(found, mend=command, caution=caution)
        names = (flow.target, *below(self.plan.graph, flow.target, streamed=True))
        command = f"headrace run --full-refresh {shlex.quote(','.join(map(str, names)))}"
        return replace(found, mend=command, caution=lost[0].describe() if lost else "")


def _reads_again(change: Change) -> bool:
    return change.change_class in (*_READS_AGAIN, ChangeClass.RESTART)


def _sum(works: Iterable[Work]) -> Work:
    found = tuple(works)
    return Work(
        _total(work.rows for work in found),
        _total(work.size_bytes for work in found),
        _total(work.core_seconds for work in found),
    )


def _total(numbers: Iterable[int | float | None]) -> Any:
    known = tuple(numbers)
    return None if not known or None in known else sum(known)
