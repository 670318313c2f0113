"""Reads a pipeline's storage without a JVM: tables, row counts, quarantine."""

from __future__ import annotations

from typing import Any

from headrace.delta_log.lateness import measure_lateness
from headrace.delta_log.tables import count_rows, open_table_log, query_rows
from headrace.errors import PipelineError
from headrace.model.lateness import Lateness
from headrace.model.names import InvalidName, Naming
from headrace.model.rows import Rows
from headrace.options.nearest import did_you_mean
from headrace.project.inspection.open_rows import dead_letter_tables, quarantine_tables
from headrace.project.inspection.waiting_rows import unreadable_quarantine
from headrace.settings.storage import StorageLayout
from headrace.storage.dead_letter_tables import QUERY_FAILED, SINK_REFUSED
from headrace.storage.inventory import stored_tables
from headrace.stores.delta_tables import open_delta

# The reason comes first: a terminal may not show the columns behind a long row.
_FIRST_COLUMNS = ("broken", "error", "row")


def row_count(path: str) -> int | None:
    """The number of rows of a table by its log, or None if there is no table."""
    table = open_table_log(path)
    return None if table is None else count_rows(table, path)


def lateness(
    layout: StorageLayout, naming: Naming, text: str, column: str, commits: int, dropped_share: float, now_s: float
) -> Lateness:
    """How late the rows of a table arrived, in its last commits.

    Raises:
        PipelineError: LATENESS.NO_TABLE, LATENESS.NO_TIME.
    """
    tables = {str(name): path for name, path in stored_tables(layout, naming)}
    try:
        name = str(naming.canonical(text))
    except InvalidName:
        name = text
    if name not in tables:
        raise PipelineError("LATENESS.NO_TABLE", name=text, suggestion=did_you_mean(text, sorted(tables)))
    return measure_lateness(tables[name], name, column, commits, dropped_share, now_s)


def quarantined(layout: StorageLayout, naming: Naming, text: str, rows: int) -> Rows:
    """The newest quarantined rows and dead letters of a dataset; dead letters are rows of their source.

    Raises:
        PipelineError: QUARANTINE.NONE if the dataset never had any, QUARANTINE.UNREADABLE.
    """
    tables, failing = quarantine_tables(layout, naming), dead_letter_tables(layout, naming)
    try:
        wanted = str(naming.canonical(text))
    except InvalidName:
        wanted = text
    if wanted not in tables.keys() | failing.keys():
        names = sorted(tables.keys() | failing.keys())
        raise PipelineError("QUARANTINE.NONE", name=text, suggestion=did_you_mean(text, names))
    query = f"SELECT * FROM q ORDER BY quarantined_at DESC, batch_id DESC LIMIT {int(rows)}"  # noqa: S608 - a number
    columns: dict[str, None] = {}
    found: list[dict[str, Any]] = []
    for path in failing.get(wanted, ()):
        columns |= dict.fromkeys(_FIRST_COLUMNS)
        found += [
            {**row, "broken": [SINK_REFUSED if row["sink"] else QUERY_FAILED]}
            for row in query_rows(open_delta(path), query)
        ]
        columns |= dict.fromkeys(field.name for field in open_delta(path).schema().fields)
    if wanted in tables:
        try:
            found += query_rows(open_delta(tables[wanted]), query)
        except Exception as error:
            # Spark writes texts that are not UTF-8 as they are, and Arrow does not read them.
            raise unreadable_quarantine(wanted, error) from error
        columns |= dict.fromkeys(field.name for field in open_delta(tables[wanted]).schema().fields)
    others = (name for name in columns if name not in _FIRST_COLUMNS)
    shown = (*(name for name in _FIRST_COLUMNS if name in columns), *others)
    newest = sorted(found, key=lambda row: (row["quarantined_at"], row["batch_id"]), reverse=True)[:rows]
    return Rows(shown, tuple(tuple(row.get(column) for column in shown) for row in newest))
