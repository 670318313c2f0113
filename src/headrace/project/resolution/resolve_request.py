"""What a project is resolved with, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.cdc.snapshot_versions import SnapshotState
from headrace.errors import PipelineError
from headrace.graph.resolve import StoredSchema
from headrace.graph.resolved import ResolvedGraph
from headrace.model.datasets import Definitions, Flow
from headrace.model.hooks import EventHook
from headrace.model.names import QualifiedName
from headrace.spark.update.catalog import Catalog

# Finds the datasets of a project that lose their rows.
Cleared: TypeAlias = Callable[[Definitions], "frozenset[QualifiedName]"]


@dataclass(frozen=True)
class Resolved:
    """A resolved project: its session, names and graph.

    ``notices`` are reported once per update, each with its code; ``hooks`` receive its events.
    """

    catalog: Catalog
    graph: ResolvedGraph
    notices: tuple[tuple[str, str], ...] = ()
    hooks: tuple[EventHook, ...] = ()


@dataclass(frozen=True)
class ResolveRequest:
    """A request to resolve a project.

    Attributes:
        kept_schema: finds the schemas of tables that keep their rows.
        cleared: finds the datasets that lose their rows, so that the schemas of their inputs are inferred again.
        known: known problems, reported together with new ones.
        skip_unavailable: skip flows whose sources are unavailable, instead of raising.
        snapshot_state: finds the snapshots that flows have processed.
    """

    kept_schema: StoredSchema
    cleared: Cleared = lambda _definitions: frozenset()
    known: tuple[PipelineError, ...] = ()
    skip_unavailable: bool = False
    snapshot_state: Callable[[Flow], SnapshotState] = lambda _flow: SnapshotState()
