"""What a storage holds, in a form in which an interrupted project equals an uninterrupted one."""

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

# They say when and by which update a row was set aside, or an event was remembered.
_PASSING = ("update_id", "quarantined_at", "remembered_at")


@dataclass(frozen=True)
class Picture:
    """The tables, with what is set aside and remembered; and of each flow what was counted in its newest epoch.

    A view is computed as often as there are reasons to, so that only the newest counts of one are compared. ``batches``
    are the numbers of the batches of each flow in its newest epoch.
    """

    tables: Mapping[str, SortedRows]
    counts: Mapping[str, FlowCounts]
    counted_twice: tuple[str, ...]
    batches: Mapping[str, frozenset[int]] = field(default_factory=dict)


def picture(folder: Path, views: Collection[str] = VIEWS) -> Picture:
    """The picture of a project's storage; *views* are its materialized views."""
    layout = StorageLayout(str(folder / "storage"))
    logs = sorted((folder / "storage" / "tables" / "default").glob("*/_delta_log"))
    tables = {log.parent.name: _rows(log.parent, views) for log in logs}
    for log in sorted((folder / "storage" / "system" / "cdc" / "default").glob("*/_delta_log")):
        tables[f"{log.parent.name}, remembered"] = _without(_PASSING, rows_at(str(log.parent)))
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
    return Picture(tables, counts, tuple(sorted(twice)), numbers)


def differences(found: Picture, expected: Picture, *, repeats: bool = False) -> list[str]:
    """How the pictures differ, as texts; none when they are equal.

    Args:
        found: of the interrupted project.
        expected: of the uninterrupted one.
        repeats: a batch may be in the event log twice, by a holder that was taken over and by who took over.

    Spark's source of files notes the files of a batch before the batch is planned. After a crash in between it reads
    them together with the next ones, in one batch. Of a flow to which that has happened, what depends on the borders of
    batches is not compared: numbers of batches, what is remembered, and what a merge has counted. Rows are.
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


def _without_borders(picture: Picture, flows: Collection[str]) -> Picture:
    """The picture without what depends on the borders of batches, of flows that have their tables' names."""
    aside, remembered = ({f"{flow}{end}" for flow in flows} for end in (QUARANTINE_SUFFIX, ", remembered"))
    tables = {
        name: _without(("batch_id",), rows) if name in aside else rows
        for name, rows in picture.tables.items()
        if name not in remembered
    }
    counts = {
        flow: replace(found, rows_upserted=None, rows_deleted=None, changes=None) if flow in flows else found
        for flow, found in picture.counts.items()
    }
    return replace(picture, tables=tables, counts=counts)


def _rows(table: Path, views: Collection[str]) -> SortedRows:
    rows: list[dict[str, Any]] = rows_at(str(table))
    if not table.name.endswith(QUARANTINE_SUFFIX):
        return SortedRows(rows)
    view = table.name.removesuffix(QUARANTINE_SUFFIX) in views
    left_out = {*_PASSING, "batch_id"} if view else set(_PASSING)
    return _without(left_out, rows)


def _without(left_out: Collection[str], rows: Iterable[Mapping[str, Any]]) -> SortedRows:
    return SortedRows({key: value for key, value in row.items() if key not in left_out} for row in rows)
