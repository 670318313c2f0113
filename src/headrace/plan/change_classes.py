"""Finds the changes of a plan: each has one class, by the steps of the plan and by whether a flow's code changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import OneTimeFlow, RefreshFlow, ResolvedFlow
from headrace.model.change_classes import ChangeClass
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.plan.changes import Change
from headrace.plan.refused import dataset_of
from headrace.plan.steps import Decision, FlowStep, Plan, TableChange, TableStep, ViewChange, ViewStep

_VIEW_CLASSES = {
    ViewChange.CREATE: ChangeClass.ADD,
    ViewChange.REPLACE: ChangeClass.RECOMPUTE,
    ViewChange.REMOVE: ChangeClass.RETIRE,
}


class DeployedCode(Protocol):
    """Reads which code flows ran with."""

    def has_run(self, flow: ResolvedFlow) -> bool:
        """True if the flow ran before."""

    def has_new_code(self, flow: ResolvedFlow) -> bool:
        """True if the flow ran before, with other code, settings or input columns."""


def changes_of(plan: Plan, deployed: DeployedCode) -> tuple[Change, ...]:
    """The changes of a plan, worst first; those of one class in the order of the plan.

    Args:
        plan: the plan of an update.
        deployed: what is known of earlier runs.
    """
    found = [*_Finder(plan, deployed).changes()]
    return tuple(sorted(found, key=lambda change: change.change_class.rank))


def below(graph: ResolvedGraph, name: QualifiedName, *, streamed: bool = False) -> tuple[QualifiedName, ...]:
    """The stored datasets that depend on a dataset, directly or through others, in the order of the graph.

    Args:
        graph: the datasets and their flows.
        name: the dataset.
        streamed: follow only inputs that are read as streams.
    """
    found: dict[QualifiedName, None] = {name: None}
    for flow in graph.stored_flows:
        inputs = graph.stored_inputs(flow)
        if any(given.name in found and (given.streaming or not streamed) for given in inputs):
            found[flow.target] = None
    return tuple(other for other in found if other != name)


@dataclass(frozen=True)
class _Finder:
    plan: Plan
    deployed: DeployedCode

    def changes(self) -> Iterator[Change]:
        """The changes, in the order of the plan's steps."""
        for error in self.plan.refused:
            yield self._refused(error)
        for rename in self.plan.renames:
            yield Change(ChangeClass.RENAME, rename.new, None, f'was "{rename.old}"')
        for table in self.plan.tables:
            change = self._of_table(table)
            if change is not None:
                yield change
        for view in self.plan.views:
            yield _of_view(view)
        for step in self.plan.flows:
            change_class = self._class_of(step)
            if change_class is not None and step.error not in self.plan.refused:
                found = self._change(change_class, step.flow.target, step.flow.name, self._why(step, change_class))
                yield replace(found, error=step.error)
        for inactive in self.plan.inactive:
            yield Change(ChangeClass.RETIRE, inactive.dataset, inactive.flow, "is not in the code")

    def _refused(self, error: PipelineError) -> Change:
        location = f" ({error.location})" if error.location else ""
        dataset, flow = dataset_of(self.plan.graph, error), error.params.get("flow")
        why = f"{error.message}{location}"
        if dataset is None:
            return Change(ChangeClass.BLOCKED, "", None, why, error=error)
        is_known = flow in self.plan.graph.by_flow
        return replace(self._change(ChangeClass.BLOCKED, dataset, flow if is_known else None, why), error=error)

    def _of_table(self, step: TableStep) -> Change | None:
        match step.change:
            case TableChange.CREATE:
                return Change(ChangeClass.ADD, str(step.dataset), None, step.reason)
            case TableChange.RESET:
                is_sink = self.plan.graph.by_name[step.dataset].kind is Kind.SINK
                rebuild = ChangeClass.DESTRUCTIVE if step.loses_rows else ChangeClass.REBUILD
                return self._change(ChangeClass.REDELIVER if is_sink else rebuild, step.dataset, None, step.reason)
            case TableChange.EVOLVE:
                if step.columns or step.widened or step.relaxed:
                    return Change(ChangeClass.WIDEN, str(step.dataset), None, step.reason)
                if step.properties or step.comment is not None or step.column_comments or step.cluster_by is not None:
                    return Change(ChangeClass.ANNOTATE, str(step.dataset), None, step.reason)
                # Its next computation applies the rest, for which its flow may have a change of its own.
                flows = self.plan.graph.flows_into(step.dataset)
                if any(self._class_of(self.plan.step_for(flow.name)) is ChangeClass.RECOMPUTE for flow in flows):
                    return None
                return self._change(ChangeClass.RECOMPUTE, step.dataset, None, step.reason)

    def _class_of(self, step: FlowStep) -> ChangeClass | None:
        """The class of a flow's change; None if the step of its table says it all, or if nothing happens."""
        table = self.plan.table_step_for(step.flow.target)
        if step.decision is Decision.FAIL or step.is_stuck:
            return ChangeClass.BLOCKED
        if step.decision is not Decision.START or (table and table.change is not TableChange.EVOLVE):
            return None
        if step.restart is not None:
            return ChangeClass.RESTART
        if step.reset:
            return ChangeClass.RECOMPUTE
        if not self.deployed.has_run(step.flow):
            return ChangeClass.ADD
        if not isinstance(step.flow, OneTimeFlow) and self.deployed.has_new_code(step.flow):
            return ChangeClass.RECOMPUTE if isinstance(step.flow, RefreshFlow) else ChangeClass.FORWARD_ONLY
        return ChangeClass.DATA if step.has_work else None

    def _why(self, step: FlowStep, change_class: ChangeClass) -> str:
        if change_class is ChangeClass.FORWARD_ONLY:
            return "its code, settings or input columns changed; rows that are in it stay as they are"
        if change_class is ChangeClass.RECOMPUTE and not step.reset:
            return "its code, settings or input columns changed"
        return step.reason

    def _change(self, change_class: ChangeClass, dataset: QualifiedName, flow: str | None, why: str) -> Change:
        readers = below(self.plan.graph, dataset) if change_class.concerns_readers else ()
        return Change(change_class, str(dataset), flow, why, tuple(map(str, readers)))


def _of_view(step: ViewStep) -> Change:
    return Change(_VIEW_CLASSES[step.change], str(step.dataset), None, step.reason)
