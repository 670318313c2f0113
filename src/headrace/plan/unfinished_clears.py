"""Tables that an update clears although nobody asks for it now: what an earlier one began, or somebody deleted."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.graph.resolved import Mode, ResolvedGraph
from headrace.graph.select import Selected
from headrace.model.names import QualifiedName
from headrace.plan.deployed import DeployedState


@dataclass(frozen=True)
class Unfinished:
    """Tables that have to be cleared.

    ``interrupted`` are those of a full refresh that was not finished, ``settled`` those of them about which nothing is
    asked any more. ``lost`` were deleted by somebody.
    """

    interrupted: frozenset[QualifiedName]
    settled: frozenset[QualifiedName]
    lost: frozenset[QualifiedName]

    @property
    def names(self) -> frozenset[QualifiedName]:
        """All of them."""
        return self.interrupted | self.lost


def unfinished(graph: ResolvedGraph, state: DeployedState, selected: Selected) -> Unfinished:
    """What of the selected tables has to be cleared; not those whose progress alone is to be dropped now."""
    interrupted: set[QualifiedName] = set()
    settled: set[QualifiedName] = set()
    for name in selected.refresh:
        flows = [flow for flow in graph.flows_into(name) if state.resetting(flow)]
        if not flows:
            continue
        if all(state.accepted(flow) for flow in flows):
            settled.add(name)
        elif all(flow.name in selected.starts for flow in flows):
            continue
        interrupted.add(name)
    lost = frozenset(name for name in selected.refresh if _lost_its_table(graph, state, name))
    return Unfinished(frozenset(interrupted), frozenset(settled), lost)


def _lost_its_table(graph: ResolvedGraph, state: DeployedState, name: QualifiedName) -> bool:
    """True when streams fed a table that somebody has deleted: they have to read from the start again."""
    if name not in graph.by_name or not graph.by_name[name].kind.stored or state.table(name) is not None:
        return False
    return any(flow.mode is not Mode.REPLACE and state.ran(flow) for flow in graph.flows_into(name))
