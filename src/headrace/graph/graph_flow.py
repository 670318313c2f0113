"""A flow in a graph, whether or not its query could be resolved."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.datasets import Flow
from headrace.model.names import QualifiedName


@dataclass(frozen=True)
class GraphFlow:
    """A flow with its name and its target."""

    flow: Flow

    @property
    def name(self) -> str:
        """The flow's identity."""
        return self.flow.name

    @property
    def target(self) -> QualifiedName:
        """The dataset it feeds."""
        return self.flow.target
