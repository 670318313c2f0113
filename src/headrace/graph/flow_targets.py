"""Flows by the dataset that they feed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from headrace.model.names import QualifiedName


class Targeted(Protocol):
    """Anything that feeds a dataset."""

    @property
    def target(self) -> QualifiedName:
        """The dataset."""


_Flow = TypeVar("_Flow", bound=Targeted)


def by_target(flows: Iterable[_Flow]) -> dict[QualifiedName, tuple[_Flow, ...]]:
    """The flows of each dataset that has any, in the given order."""
    found: dict[QualifiedName, list[_Flow]] = {}
    for flow in flows:
        found.setdefault(flow.target, []).append(flow)
    return {name: tuple(fed) for name, fed in found.items()}
