"""Compares the tables of a stage with those of production: rows, schemas, and what the expectations have counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.delta_log.tables import table_exists, table_state
from headrace.events.epoch_counts import counts_of_epoch
from headrace.events.reader import EventReader
from headrace.graph.resolved_flows import Mode
from headrace.model.expectations import ExpectationCount
from headrace.model.names import QualifiedName
from headrace.model.table_diff import DiffRequest, TableDiff
from headrace.project.inspection.stored_tables import row_count
from headrace.settings.settings import Settings
from headrace.storage.inventory import flows_of

# Each batch replaces the table, so that only the newest one counts.
_REPLACING = frozenset({Mode.REPLACE.value, Mode.COMPLETE.value})


@dataclass(frozen=True)
class ExpectationPair:
    """What an expectation has counted in production and in the stage; None if one of them does not have it."""

    name: str
    production: ExpectationCount | None
    staged: ExpectationCount | None

    def to_json(self) -> dict[str, Any]:
        """The counts for programs."""
        sides = (("production", self.production), ("stage", self.staged))
        return {"name": self.name, **{key: None if one is None else one.to_json() for key, one in sides}}


@dataclass(frozen=True)
class StagedTable:
    """How a table of a stage differs from that of production.

    Attributes:
        name: of the dataset.
        diff: how schema and rows differ.
        expectations: what the expectations have counted, by name.
        quarantined: the quarantined rows of production and of the stage.
    """

    name: str
    diff: TableDiff
    expectations: tuple[ExpectationPair, ...]
    quarantined: tuple[int, int]

    def to_json(self) -> dict[str, Any]:
        """The differences for programs."""
        return {
            **self.diff.to_json(),
            "expectations": [pair.to_json() for pair in self.expectations],
            "quarantined": dict(zip(("production", "stage"), self.quarantined, strict=True)),
        }


def compare_stage(
    settings: Settings,
    staged: Settings,
    names: Iterable[QualifiedName],
    request: DiffRequest,
    compare: Callable[[Settings, DiffRequest], TableDiff],
) -> Iterator[StagedTable]:
    """Compare tables of a stage with those of production.

    Args:
        settings: the pipeline's.
        staged: those of the stage.
        names: the datasets to compare.
        request: the key, for the tables that have its columns, and the number of examples.
        compare: compares a table with that of another storage.

    Raises:
        PipelineError: DIFF.*, EVENTS.NOT_READABLE.
    """
    names = tuple(names)
    with_key = [name for name in names if _has_columns((settings, staged), name, request.key)]
    for name in names:
        # If no table has the columns, the first one says so.
        key = request.key if name in with_key or not with_key else ()
        counts = [_expectations(one, name) for one in (settings, staged)]
        known = dict.fromkeys((*counts[0], *counts[1]))
        quarantines = [one.layout.quarantine(one.naming, name) for one in (settings, staged)]
        rows = [row_count(path) or 0 if table_exists(path) else 0 for path in quarantines]
        found = compare(staged, DiffRequest(str(name), key=key, examples=request.examples))
        pairs = tuple(ExpectationPair(one, counts[0].get(one), counts[1].get(one)) for one in known)
        yield StagedTable(str(name), found, pairs, (rows[0], rows[1]))


def _has_columns(sides: Iterable[Settings], name: QualifiedName, key: Iterable[str]) -> bool:
    """Whether both tables of a dataset have the columns of a key."""
    states = (table_state(one.layout.table(one.naming, name)) for one in sides)
    columns = [set() if state is None else set(map(str.casefold, state.schema.names)) for state in states]
    known = set.intersection(*columns)
    texts = map(str.casefold, key)
    # The name of a column may have a comma.
    parts = (part.strip() for text in texts for part in ([text] if text in known else text.split(",")))
    return known.issuperset(filter(None, parts))


def _expectations(settings: Settings, name: QualifiedName) -> Mapping[str, ExpectationCount]:
    """What the expectations of a dataset have counted in the epochs of its flows."""
    reader = EventReader(settings.layout.events)
    found: dict[str, ExpectationCount] = {}
    for flow in flows_of(settings.layout, settings.naming, name):
        newest = flow.record.mode in _REPLACING
        counts = counts_of_epoch(reader, flow.name, flow.record.epoch, newest=newest)
        for one in counts.expectations if counts is not None else ():
            found[one.name] = found[one.name].plus(one) if one.name in found else one
    return found
