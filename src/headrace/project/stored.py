"""What lies in a pipeline's storage, looked at without a JVM: tables, row counts, quarantine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from headrace.checkpoints.delta_log import open_table, rows_in
from headrace.checkpoints.inventory import stored_tables
from headrace.errors import PipelineError
from headrace.graph.build import QUARANTINE_SUFFIX, did_you_mean
from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, quoted
from headrace.model.rows import Rows
from headrace.settings.settings import Settings
from headrace.settings.storage import StorageLayout

_BY_RULE = """\
SELECT rule, count(*) AS n FROM (SELECT unnest(broken) AS rule FROM q) AS t GROUP BY rule ORDER BY rule"""


def unusable(settings: Settings) -> tuple[PipelineError, ...]:
    """What keeps an update from writing into the storage, as far as looking tells; nothing is made."""
    storage = Path(settings.storage)
    there = next(place for place in (storage, *storage.parents) if place.exists())
    if not there.is_dir():
        reason = f'"{there}" is not a folder'
    elif not os.access(there, os.W_OK | os.X_OK):
        reason = f'"{there}" may not be written'
    else:
        return ()
    place = Location(settings.file.name)
    return (PipelineError("STORAGE.UNUSABLE", location=place, path=storage, reason=reason),)


def make_storage(settings: Settings) -> None:
    """The storage's folder, in which a file can be made.

    Raises:
        PipelineError: STORAGE.UNUSABLE.
    """
    storage = Path(settings.storage)
    try:
        storage.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=storage):
            pass
    except OSError as error:
        raise PipelineError("STORAGE.UNUSABLE", path=storage, reason=error.strerror or error) from error


def row_count(path: str) -> int | None:
    """How many rows a table has by its log, or None when there is no table."""
    table = open_table(path)
    return None if table is None else rows_in(table)


def quarantines(layout: StorageLayout, naming: Naming) -> tuple[tuple[str, int, Mapping[str, int]], ...]:
    """For each quarantine table its dataset, rows set aside, and how many of them broke each rule."""
    found = []
    for name, path in stored_tables(layout, naming):
        if name.name.endswith(QUARANTINE_SUFFIX):
            table = DeltaTable(path)
            rules = {row["rule"]: row["n"] for row in _query(table, _BY_RULE)}
            found.append((str(name)[: -len(QUARANTINE_SUFFIX)], rows_in(table), rules))
    return tuple(found)


def quarantined(layout: StorageLayout, naming: Naming, text: str, rows: int) -> Rows:
    """The newest rows of a dataset's quarantine table.

    Raises:
        PipelineError: QUARANTINE.NONE when the dataset has no quarantine table.
    """
    known = {str(name): path for name, path in stored_tables(layout, naming) if name.name.endswith(QUARANTINE_SUFFIX)}
    try:
        wanted = f"{naming.canonical(text)}{QUARANTINE_SUFFIX}"
    except InvalidName:
        wanted = text
    if wanted not in known:
        names = [name[: -len(QUARANTINE_SUFFIX)] for name in known]
        raise PipelineError("QUARANTINE.NONE", name=text, suggestion=did_you_mean(text, names))
    query = f"SELECT * FROM q ORDER BY quarantined_at DESC, batch_id DESC LIMIT {int(rows)}"  # noqa: S608 - a number
    try:
        found = _query(DeltaTable(known[wanted]), query)
    except Exception as error:
        # Spark writes texts that are not UTF-8 as they are, and Arrow does not read them.
        shown = f"SELECT * FROM {quoted(*wanted.split('.'))}"  # noqa: S608 - a table that is there, and its name quoted
        raise PipelineError("QUARANTINE.UNREADABLE", name=text, query=shown, reason=error) from error
    columns = tuple(field.name for field in DeltaTable(known[wanted]).schema().fields)
    return Rows(columns, tuple(tuple(row[column] for column in columns) for row in found))


def _query(table: DeltaTable, query: str) -> list[dict[str, Any]]:
    result: Any = QueryBuilder().register("q", table).execute(query)
    rows: list[dict[str, Any]] = pa.table(result.read_all()).to_pylist()
    return rows
