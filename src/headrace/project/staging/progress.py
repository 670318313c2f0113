"""How far the flows of a stage are, next to those of production; without a session and without the code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.delta_log.tables import table_state
from headrace.project.inspection.stored_tables import row_count
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth
from headrace.storage.inventory import stored_tables
from headrace.storage.positions import StoredTable, ledger_folders, source_positions
from headrace.storage.stages.manifest import Stage

_NOT_RUN = "has not run"


@dataclass(frozen=True)
class SourceProgress:
    """The position of a source of a staged flow, and that of the same source in production, in words."""

    flow: str
    source: str
    staged: str
    production: str

    def to_json(self) -> dict[str, Any]:
        """The positions for programs."""
        return {"flow": self.flow, "source": self.source, "stage": self.staged, "production": self.production}


@dataclass(frozen=True)
class StagedRows:
    """The rows of a table in the stage and in production; None without a table."""

    dataset: str
    staged: int | None
    production: int | None

    def to_json(self) -> dict[str, Any]:
        """The numbers for programs."""
        return {"dataset": self.dataset, "stage": self.staged, "production": self.production}


def staged_rows(settings: Settings, staged: Settings) -> Iterator[StagedRows]:
    """The rows of each table of a stage, and of that of production."""
    for name in sorted(staged.staged):
        counts = [row_count(one.layout.table(one.naming, name)) for one in (staged, settings)]
        yield StagedRows(str(name), *counts)


def source_progress(
    stage: Stage, settings: Settings, staged: Settings, flows: Sequence[FlowHealth], own: Sequence[FlowHealth]
) -> Iterator[SourceProgress]:
    """The positions of the flows of a stage and of production, by source.

    Args:
        stage: the stage.
        settings: the pipeline's.
        staged: those of the stage.
        flows: the flows of production.
        own: the flows of the stage.
    """
    tables = [
        StoredTable(name, state)
        for one in (settings, staged)
        for name, path in stored_tables(one.layout, one.naming)
        if (state := table_state(path)) is not None
    ]
    for then in stage.flows:
        then_now = (_flow(then.name, flows), _flow(then.name, own))
        positions = [
            ()
            if flow is None or not flow.has_checkpoint
            else source_positions(flow.stores.checkpoint, tables, ledger_folders(flow.stored.file.parent))
            for flow in then_now
        ]
        if not any(positions):
            words = [_NOT_RUN if flow is None or not flow.stored.has_run else "has run" for flow in then_now]
            yield SourceProgress(then.name, "", words[1], words[0])
        for number in range(max(map(len, positions))):
            pair = [one[number] if number < len(one) else None for one in positions]
            source = next(one.source for one in reversed(pair) if one is not None)
            words = [_NOT_RUN if one is None else one.position for one in pair]
            yield SourceProgress(then.name, source, words[1], words[0])


def _flow(name: str, flows: Sequence[FlowHealth]) -> FlowHealth | None:
    return next((flow for flow in flows if flow.stored.name == name), None)
