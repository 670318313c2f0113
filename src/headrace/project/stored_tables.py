"""What lies in a pipeline's storage, looked at without a JVM: tables, row counts, quarantine."""

from __future__ import annotations

import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from headrace.delta_log.lateness import measured
from headrace.delta_log.tables import open_table, queried, rows_in
from headrace.errors import PipelineError
from headrace.graph.build import QUARANTINE_SUFFIX, did_you_mean
from headrace.model.lateness import Lateness
from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, quoted
from headrace.model.rows import Rows
from headrace.settings.settings import Settings
from headrace.settings.storage import StorageLayout
from headrace.storage.dead_letters import QUERY_FAILED, SINK_REFUSED, failing_rows_table
from headrace.storage.inventory import stored_flows, stored_tables

_BY_RULE = """\
SELECT rule, count(*) AS n FROM (SELECT unnest(broken) AS rule FROM q WHERE status = 'open') AS t
GROUP BY rule ORDER BY rule"""
_BY_CAUSE = f"""\
SELECT CASE WHEN sink IS NULL THEN '{QUERY_FAILED}' ELSE '{SINK_REFUSED}' END AS rule, count(*) AS n FROM q
WHERE status = 'open' GROUP BY 1 ORDER BY 1"""  # noqa: S608 - words of ours
_OPEN = "SELECT count(*) AS n FROM q WHERE status = 'open'"


def unusable(settings: Settings) -> tuple[PipelineError, ...]:
    """What keeps an update from writing into the storage, as far as looking tells; nothing is made."""
    storage = Path(settings.storage)
    there = next(place for place in (storage, *storage.parents) if place.exists())
    if not there.is_dir():
        reason = f'"{there}" is not a folder'
    elif not os.access(there, os.W_OK | os.X_OK):
        reason = f'"{there}" is not writable'
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


def lateness(
    layout: StorageLayout, naming: Naming, text: str, column: str, commits: int, passed_over: float, now_s: float
) -> Lateness:
    """How late the rows of a table came, in its last commits.

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
    return measured(tables[name], name, column, commits, passed_over, now_s)


def quarantines(layout: StorageLayout, naming: Naming) -> tuple[tuple[str, int, Mapping[str, int]], ...]:
    """For each dataset with a quarantine: rows that wait in it, and how many of them broke each rule."""
    rows: Counter[str] = Counter()
    rules: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, path in _quarantine_tables(layout, naming).items():
        table = DeltaTable(path)
        rows[name] += int(queried(table, _OPEN)[0]["n"])
        rules[name] |= {row["rule"]: row["n"] for row in queried(table, _BY_RULE)}
    for name, paths in _failing_tables(layout, naming).items():
        for path in paths:
            for found in queried(DeltaTable(path), _BY_CAUSE):
                rows[name] += found["n"]
                rules[name][found["rule"]] = rules[name].get(found["rule"], 0) + found["n"]
    return tuple((name, rows[name], rules[name]) for name in sorted(rows))


def quarantined(layout: StorageLayout, naming: Naming, text: str, rows: int) -> Rows:
    """The newest rows that were set aside for a dataset; those that a query fails with as their source has them.

    Raises:
        PipelineError: QUARANTINE.NONE when nothing was ever set aside for the dataset, QUARANTINE.UNREADABLE.
    """
    tables, failing = _quarantine_tables(layout, naming), _failing_tables(layout, naming)
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
        columns |= dict.fromkeys(("row", "broken", "error"))
        found += [
            {**row, "broken": [SINK_REFUSED if row["sink"] else QUERY_FAILED]}
            for row in queried(DeltaTable(path), query)
        ]
        columns |= dict.fromkeys(field.name for field in DeltaTable(path).schema().fields)
    if wanted in tables:
        try:
            found += queried(DeltaTable(tables[wanted]), query)
        except Exception as error:
            # Spark writes texts that are not UTF-8 as they are, and Arrow does not read them.
            table = f"{wanted}{QUARANTINE_SUFFIX}"
            shown = f"SELECT * FROM {quoted(*table.split('.'))}"  # noqa: S608 - a table that is there, its name quoted
            raise PipelineError("QUARANTINE.UNREADABLE", name=text, query=shown, reason=error) from error
        columns |= dict.fromkeys(field.name for field in DeltaTable(tables[wanted]).schema().fields)
    newest = sorted(found, key=lambda row: (row["quarantined_at"], row["batch_id"]), reverse=True)[:rows]
    return Rows(tuple(columns), tuple(tuple(row.get(column) for column in columns) for row in newest))


def _quarantine_tables(layout: StorageLayout, naming: Naming) -> dict[str, str]:
    """The tables of rows that broke rules, by the names of their datasets."""
    stored = ((str(name), path) for name, path in stored_tables(layout, naming))
    return {name[: -len(QUARANTINE_SUFFIX)]: path for name, path in stored if name.endswith(QUARANTINE_SUFFIX)}


def _failing_tables(layout: StorageLayout, naming: Naming) -> dict[str, list[str]]:
    """The tables of rows that queries fail with, by the names of what their flows feed."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for flow in stored_flows(layout, naming):
        path = failing_rows_table(flow.file.parent)
        if open_table(path) is not None:
            found[str(flow.dataset)].append(path)
    return found
