"""The newest open quarantined rows and dead letters of a dataset, with their values; read without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.delta_log.tables import has_log, open_table, query_rows, sql_literal
from headrace.errors import PipelineError
from headrace.model.names import QUARANTINE_SUFFIX, InvalidName, Naming, quoted
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.open_rows import dead_letter_tables, quarantine_tables
from headrace.settings.storage import StorageLayout
from headrace.storage.dead_letter_tables import QUERY_FAILED, SINK_REFUSED, dead_letter_table
from headrace.storage.inventory import flows_of

# A record that is longer is not taken apart into columns.
_LONGEST_RECORD = 100_000
# A longer number of a record is a text, as decimals are.
_MOST_DIGITS = 19
# The column of a record that is no object.
_RECORD = "record"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_COMMON = "source, flow, update_id, batch_id, quarantined_at"
_ROW = f'"row", broken, {_COMMON}'
_LETTER = f"""\
left("row", {_LONGEST_RECORD}) AS record, character_length("row") AS record_length,
left(error, {_LONGEST_RECORD}) AS error, condition, sink, {_COMMON}"""


@dataclass(frozen=True)
class WaitingRow:
    """An open row of a quarantine, or an open dead letter.

    Attributes:
        rules: the rules that it violates; for a dead letter, what failed.
        values: by column.
        error: the error of a dead letter; None for a quarantined row.
        condition: the code of the error, if it has one.
        sink: the sink that refused it, if one did.
        source: the origin: ``file``, or ``topic``, ``partition`` and ``offset``, or ``version``; None for the others.
        flow: that read it.
        update_id: of the update.
        quarantined_at: when it was stored there.
    """

    rules: tuple[str, ...]
    values: Mapping[str, Any]
    error: str | None
    condition: str | None
    sink: str | None
    source: Mapping[str, Any]
    flow: str | None
    update_id: str | None
    quarantined_at: datetime | None


@dataclass(frozen=True)
class WaitingRows:
    """The newest open rows of a dataset, the newest first, and the number of all that are open."""

    rows: tuple[WaitingRow, ...] = ()
    total: int = 0


def waiting_rows(layout: StorageLayout, naming: Naming, dataset: str, rule: str, limit: int) -> WaitingRows:
    """The newest open rows of a dataset.

    Args:
        layout: of the storage.
        naming: of the pipeline.
        dataset: its name.
        rule: only rows that violate this rule, ``query.failed`` or ``sink.refused``; empty for all.
        limit: the maximum number of rows.

    Raises:
        PipelineError: QUARANTINE.NONE if the dataset never had any, QUARANTINE.UNREADABLE, STORAGE.TABLE_UNREADABLE.
    """
    try:
        name = naming.canonical(dataset)
    except InvalidName as error:
        raise _no_quarantine(layout, naming, dataset) from error
    quarantine = layout.quarantine(naming, name)
    letters = [path for flow in flows_of(layout, naming, name) if has_log(path := dead_letter_table(flow.file.parent))]
    if not letters and not has_log(quarantine):
        raise _no_quarantine(layout, naming, dataset)
    found: list[tuple[tuple[datetime, int], WaitingRow]] = []
    total = 0
    try:
        for path, columns, condition in _readings(quarantine, letters, rule):
            rows, number = _newest(path, columns, condition, limit)
            total += number
            found += [(_age(row), _waiting_row(row)) for row in rows]
    except PipelineError:
        raise
    except Exception as error:
        raise unreadable_quarantine(str(name), error) from error
    found.sort(key=lambda one: one[0], reverse=True)
    return WaitingRows(tuple(row for _, row in found[:limit]), total)


def unreadable_quarantine(name: str, error: Exception) -> PipelineError:
    """The error for rows that delta-rs or Arrow cannot read, such as texts that are not UTF-8.

    Args:
        name: of the dataset.
        error: the reason.
    """
    table = f"{name}{QUARANTINE_SUFFIX}"
    select = f"SELECT * FROM {quoted(*table.split('.'))}"  # noqa: S608 - a table that is there, its name quoted
    return PipelineError("QUARANTINE.UNREADABLE", name=name, query=select, reason=error)


def _no_quarantine(layout: StorageLayout, naming: Naming, dataset: str) -> PipelineError:
    names = sorted(quarantine_tables(layout, naming).keys() | dead_letter_tables(layout, naming).keys())
    return PipelineError("QUARANTINE.NONE", name=dataset, suggestion=did_you_mean(dataset, names))


def _readings(quarantine: str, letters: Iterable[str], rule: str) -> list[tuple[str, str, str]]:
    """The tables, the columns to read of each, and which of its rows."""
    broken = f" AND array_has(broken, {sql_literal(rule)})" if rule else ""
    found = [(quarantine, _ROW, f"status = 'open'{broken}")]
    failed = {"": "", QUERY_FAILED: " AND sink IS NULL", SINK_REFUSED: " AND sink IS NOT NULL"}.get(rule)
    if failed is not None:
        found += [(path, _LETTER, f"status = 'open'{failed}") for path in letters]
    return found


def _newest(path: str, columns: str, condition: str, limit: int) -> tuple[list[dict[str, Any]], int]:
    table = open_table(path) if has_log(path) else None
    if table is None:
        return [], 0
    number = query_rows(table, f"SELECT count(*) AS n FROM q WHERE {condition}")[0]["n"]  # noqa: S608 - see _readings
    order = f"ORDER BY quarantined_at DESC NULLS LAST, batch_id DESC NULLS LAST LIMIT {int(limit)}"
    query = f"SELECT {columns} FROM q WHERE {condition} {order}"  # noqa: S608 - see _readings
    return (query_rows(table, query) if number else []), int(number)


def _age(row: Mapping[str, Any]) -> tuple[datetime, int]:
    return row["quarantined_at"] or _LONG_AGO, row["batch_id"] or 0


def _waiting_row(row: Mapping[str, Any]) -> WaitingRow:
    is_dead_letter = "record" in row
    return WaitingRow(
        (SINK_REFUSED if row["sink"] else QUERY_FAILED,) if is_dead_letter else tuple(row["broken"] or ()),
        _values(row["record"], row["record_length"]) if is_dead_letter else row["row"] or {},
        row.get("error"),
        row.get("condition"),
        row.get("sink"),
        row["source"] or {},
        row["flow"],
        row["update_id"],
        row["quarantined_at"],
    )


def _values(record: str | None, length: int | None) -> Mapping[str, Any]:
    """The values of a record in JSON, by column; decimals stay as they are written."""
    if record is None or (length or 0) > _LONGEST_RECORD:
        return {_RECORD: record}
    try:
        found = json.loads(record, parse_float=str, parse_int=_whole, parse_constant=str)
    except (ValueError, RecursionError):
        return {_RECORD: record}
    return found if isinstance(found, dict) else {_RECORD: record}


def _whole(text: str) -> int | str:
    return int(text) if len(text) <= _MOST_DIGITS else text
