"""Reads a pipeline's storage without a JVM: tables, row counts, quarantine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from headrace.delta_log.lateness import measure_lateness
from headrace.delta_log.tables import count_rows, open_table, query_rows
from headrace.errors import PipelineError
from headrace.graph.build import QUARANTINE_SUFFIX, did_you_mean
from headrace.model.lateness import Lateness
from headrace.model.names import InvalidName, Naming, quoted
from headrace.model.rows import Rows
from headrace.settings.storage import StorageLayout
from headrace.storage.dead_letters import QUERY_FAILED, SINK_REFUSED, dead_letter_table
from headrace.storage.inventory import stored_flows, stored_tables

_BY_RULE = """\
SELECT rule, count(*) AS n FROM (SELECT unnest(broken) AS rule FROM q WHERE status = 'open') AS t
GROUP BY rule ORDER BY rule"""
_BY_CAUSE = f"""\
SELECT CASE WHEN sink IS NULL THEN '{QUERY_FAILED}' ELSE '{SINK_REFUSED}' END AS rule, count(*) AS n FROM q
WHERE status = 'open' GROUP BY 1 ORDER BY 1"""  # noqa: S608 - words of ours
# The reason comes first: a terminal may not show the columns behind a long row.
_FIRST_COLUMNS = ("broken", "error", "row")
_OPEN = "SELECT count(*) AS n FROM q WHERE status = 'open'"


def row_count(path: str) -> int | None:
    """The number of rows of a table by its log, or None if there is no table."""
    table = open_table(path)
    return None if table is None else count_rows(table)


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


def quarantines(layout: StorageLayout, naming: Naming) -> tuple[tuple[str, int, Mapping[str, int]], ...]:
    """For each dataset with a quarantine: its open rows, and the number of rows per violated rule."""
    rows: Counter[str] = Counter()
    rules: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, path in _quarantine_tables(layout, naming).items():
        table = DeltaTable(path)
        rows[name] += int(query_rows(table, _OPEN)[0]["n"])
        rules[name] |= {row["rule"]: row["n"] for row in query_rows(table, _BY_RULE)}
    for name, paths in _failing_tables(layout, naming).items():
        for path in paths:
            for found in query_rows(DeltaTable(path), _BY_CAUSE):
                rows[name] += found["n"]
                rules[name][found["rule"]] = rules[name].get(found["rule"], 0) + found["n"]
    return tuple((name, rows[name], rules[name]) for name in sorted(rows))


def quarantined(layout: StorageLayout, naming: Naming, text: str, rows: int) -> Rows:
    """The newest quarantined rows and dead letters of a dataset; dead letters are rows of their source.

    Raises:
        PipelineError: QUARANTINE.NONE if the dataset never had any, QUARANTINE.UNREADABLE.
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
        columns |= dict.fromkeys(_FIRST_COLUMNS)
        found += [
            {**row, "broken": [SINK_REFUSED if row["sink"] else QUERY_FAILED]}
            for row in query_rows(DeltaTable(path), query)
        ]
        columns |= dict.fromkeys(field.name for field in DeltaTable(path).schema().fields)
    if wanted in tables:
        try:
            found += query_rows(DeltaTable(tables[wanted]), query)
        except Exception as error:
            # Spark writes texts that are not UTF-8 as they are, and Arrow does not read them.
            table = f"{wanted}{QUARANTINE_SUFFIX}"
            select = f"SELECT * FROM {quoted(*table.split('.'))}"  # noqa: S608 - a table that is there, its name quoted
            raise PipelineError("QUARANTINE.UNREADABLE", name=text, query=select, reason=error) from error
        columns |= dict.fromkeys(field.name for field in DeltaTable(tables[wanted]).schema().fields)
    others = (name for name in columns if name not in _FIRST_COLUMNS)
    shown = (*(name for name in _FIRST_COLUMNS if name in columns), *others)
    newest = sorted(found, key=lambda row: (row["quarantined_at"], row["batch_id"]), reverse=True)[:rows]
    return Rows(shown, tuple(tuple(row.get(column) for column in shown) for row in newest))


def _quarantine_tables(layout: StorageLayout, naming: Naming) -> dict[str, str]:
    """The quarantine tables, by the names of their datasets."""
    stored = ((str(name), path) for name, path in stored_tables(layout, naming))
    return {name[: -len(QUARANTINE_SUFFIX)]: path for name, path in stored if name.endswith(QUARANTINE_SUFFIX)}


def _failing_tables(layout: StorageLayout, naming: Naming) -> dict[str, list[str]]:
    """The dead letter tables, by the names of their flows' targets."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for flow in stored_flows(layout, naming):
        path = dead_letter_table(flow.file.parent)
        if open_table(path) is not None:
            found[str(flow.dataset)].append(path)
    return found
