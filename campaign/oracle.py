"""The content of a storage, in a form that is equal for an interrupted and an uninterrupted project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from campaign.workload import VIEWS
from headrace.events.envelope import from_row
from headrace.events.reader import EventReader
from headrace.events.types import BatchDone
from headrace.model.outcome import FlowCounts
from headrace.settings.storage import StorageLayout
from headrace.testing import difference
from headrace.testing.result import QUARANTINE_SUFFIX, rows_at
from headrace.testing.rows import SortedRows

# When, and by which update, a row was quarantined or an event retained.
_VOLATILE_COLUMNS = ("update_id", "quarantined_at", "remembered_at")


@dataclass(frozen=True)
class Snapshot:
    """The tables, quarantine tables and retained change events, and each flow's counts in its newest epoch.

    Of a view only the newest counts are compared, because the number of its refreshes may vary. ``batches`` are the
    batch numbers of each flow in its newest epoch.
    """

    tables: Mapping[str, SortedRows]
    counts: Mapping[str, FlowCounts]
    counted_twice: tuple[str, ...]
    batches: Mapping[str, frozenset[int]] = field(default_factory=dict)


def snapshot(folder: Path, views: Collection[str] = VIEWS) -> Snapshot:
    """The snapshot of a project's storage; *views* are its materialized views."""
    layout = StorageLayout(str(folder / "storage"))
    logs = sorted((folder / "storage" / "tables" / "default").glob("*/_delta_log"))
    tables = {log.parent.name: _rows(log.parent, views) for log in logs}
    for log in sorted((folder / "storage" / "system" / "cdc" / "default").glob("*/_delta_log")):
        tables[f"{log.parent.name}, remembered"] = _without(_VOLATILE_COLUMNS, rows_at(str(log.parent)))
    reader = EventReader(layout.events)
    batches = [event for row in reader.events() if isinstance(event := from_row(row), BatchDone)]
    newest = {flow: max(b.epoch for b in batches if b.flow == flow) for flow in {b.flow for b in batches}}
    counts: dict[str, FlowCounts] = {}
    seen: Counter[tuple[str, int, int]] = Counter()
    for batch in batches:
        key = (batch.flow, batch.epoch, batch.batch_id)
        seen[key] += 1
        if seen[key] > 1 or batch.epoch < newest[batch.flow]:
            continue
        before = FlowCounts() if batch.flow in views else counts.get(batch.flow, FlowCounts())
        counts[batch.flow] = before.plus(batch.counts)
    twice = [f"batch {batch} of {flow} in epoch {epoch}" for (flow, epoch, batch), times in seen.items() if times > 1]
    numbers = {f: frozenset(b.batch_id for b in batches if (b.flow, b.epoch) == (f, newest[f])) for f in newest}
    return Snapshot(tables, counts, tuple(sorted(twice)), numbers)


def differences(found: Snapshot, expected: Snapshot, *, repeats: bool = False) -> list[str]:
    """The differences between two snapshots, as texts; empty if they are equal.

    Args:
        found: the snapshot of the interrupted project.
        expected: the snapshot of the uninterrupted project.
        repeats: whether the event log may have a batch twice, from the old lease holder and from the new one.

    Spark's file source records the files of a batch before it plans the batch. After a crash in between, it reads them
    together with the next files, in one batch. For such a flow, nothing that depends on batch boundaries is compared:
    batch numbers, retained events, and the counts of merges. Rows are compared.
    """
    joined = {flow for flow, numbers in found.batches.items() if numbers < expected.batches.get(flow, frozenset())}
    found, expected = _without_borders(found, joined), _without_borders(expected, joined)
    texts = []
    for name in sorted(found.tables.keys() | expected.tables.keys()):
        text = difference(found.tables.get(name, ()), expected.tables.get(name, ()))
        texts += [f"table {name}: {text}"] if text else []
    for flow in sorted(found.counts.keys() | expected.counts.keys()):
        have, want = found.counts.get(flow), expected.counts.get(flow)
        if have != want:
            texts.append(f"counts of {flow}: found {have}, expected {want}")
    if found.counted_twice and not repeats:
        texts.append(f"recorded twice: {', '.join(found.counted_twice)}")
    return texts


def _without_borders(snapshot: Snapshot, flows: Collection[str]) -> Snapshot:
    """The snapshot without the values that depend on batch boundaries, for flows named like their tables."""
    quarantined, retained = ({f"{flow}{end}" for flow in flows} for end in (QUARANTINE_SUFFIX, ", remembered"))
    tables = {
        name: _without(("batch_id",), rows) if name in quarantined else rows
        for name, rows in snapshot.tables.items()
        if name not in retained
    }
    counts = {
        flow: replace(found, rows_upserted=None, rows_deleted=None, changes=None) if flow in flows else found
        for flow, found in snapshot.counts.items()
    }
    return replace(snapshot, tables=tables, counts=counts)


def _rows(table: Path, views: Collection[str]) -> SortedRows:
    rows: list[dict[str, Any]] = rows_at(str(table))
    if not table.name.endswith(QUARANTINE_SUFFIX):
        return SortedRows(rows)
    view = table.name.removesuffix(QUARANTINE_SUFFIX) in views
    columns = {*_VOLATILE_COLUMNS, "batch_id"} if view else set(_VOLATILE_COLUMNS)
    return _without(columns, rows)


def _without(columns: Collection[str], rows: Iterable[Mapping[str, Any]]) -> SortedRows:
    return SortedRows({key: value for key, value in row.items() if key not in columns} for row in rows)
