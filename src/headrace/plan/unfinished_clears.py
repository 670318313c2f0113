"""Tables that an update clears without a request: an earlier update started it, or somebody deleted the table."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import RefreshFlow
from headrace.graph.select import Selected
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedState


@dataclass(frozen=True)
class PendingClears:
    """Tables that have to be cleared.

    ``interrupted`` belong to an unfinished full refresh; for those in ``accepted``, the user accepted the loss of rows.
    ``deleted`` were deleted by somebody.
    """

    interrupted: frozenset[QualifiedName]
    accepted: frozenset[QualifiedName]
    deleted: frozenset[QualifiedName]

    @property
    def names(self) -> frozenset[QualifiedName]:
        """All of them."""
        return self.interrupted | self.deleted


def pending_clears(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> PendingClears:
    """The selected tables that have to be cleared, without those whose flows are all reset now."""
    interrupted: set[QualifiedName] = set()
    accepted: set[QualifiedName] = set()
    for name in selected.refresh:
        flows = [flow for flow in graph.flows_into(name) if state.is_resetting(flow)]
        if not flows:
            continue
        if all(state.is_reset_accepted(flow) for flow in flows):
            accepted.add(name)
        elif all(flow.name in selected.starts for flow in flows):
            continue
        interrupted.add(name)
    deleted = frozenset(name for name in selected.refresh if _table_was_deleted(graph, state, name))
    return PendingClears(frozenset(interrupted), frozenset(accepted), deleted)


def _table_was_deleted(graph: ResolvedGraph, state: DeployedState, name: QualifiedName) -> bool:
    """True if streams wrote to a table that somebody deleted: they have to start over."""
    if name not in graph.by_name or not graph.by_name[name].kind.stored or state.table(name) is not None:
        return False
    return any(not isinstance(flow, RefreshFlow) and state.has_run(flow) for flow in graph.flows_into(name))
