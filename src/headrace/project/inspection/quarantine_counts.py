"""The quarantined rows and dead letters of one dataset, counted by rule, flow, day and origin; no row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.delta_log.plain_rows import plain_rows
from headrace.delta_log.tables import has_log, open_table
from headrace.model.names import Naming
from headrace.settings.storage import StorageLayout
from headrace.storage.dead_letter_tables import QUERY_FAILED, SINK_REFUSED, dead_letter_table
from headrace.storage.inventory import flows_of

OPEN = "open"
_ORIGINS = 5
_DAY = "CAST(CAST(date_trunc('day', quarantined_at) AS DATE) AS VARCHAR) AS day"
_BY_FLOW = f"""\
SELECT flow, status, {_DAY}, count(*) AS n, CAST(max(quarantined_at) AS VARCHAR) AS newest
FROM q GROUP BY 1, 2, 3"""  # noqa: S608 - words of ours
_BY_RULE = f"""\
SELECT rule, status, day, count(*) AS n
FROM (SELECT unnest(broken) AS rule, status, {_DAY} FROM q) AS t GROUP BY 1, 2, 3"""  # noqa: S608 - the same
_BY_CAUSE = f"""\
SELECT CASE WHEN sink IS NULL THEN '{QUERY_FAILED}' ELSE '{SINK_REFUSED}' END AS rule, status, {_DAY}, count(*) AS n
FROM q GROUP BY 1, 2, 3"""  # noqa: S608 - the same
_BY_ORIGIN = """\
SELECT source['file'] AS file, source['topic'] AS topic, count(*) AS n FROM q WHERE status = 'open'
GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 6"""
_BY_CONDITION = """\
SELECT condition, count(*) AS n FROM q WHERE status = 'open' AND condition IS NOT NULL
GROUP BY 1 ORDER BY n DESC, 1 LIMIT 6"""


@dataclass
class RuleCounts:
    """The rows of one rule, or of what fails: open ones, those that are done, and all by day (ISO 8601)."""

    open: int = 0
    done: int = 0
    days: Counter[str] = field(default_factory=Counter)

    def add(self, status: str, day: str | None, rows: int) -> None:
        """Add rows of a status and a day."""
        if status == OPEN:
            self.open += rows
        else:
            self.done += rows
        if day is not None:
            self.days[day] += rows


@dataclass
class QuarantineCounts:
    """The quarantine of a dataset.

    Attributes:
        statuses: rows by status, each row once.
        flows: open rows by flow.
        rules: by the name of a rule; a row that violates two counts for both.
        origins: open rows by file or topic, the most first.
        conditions: open dead letters by the code of the error, the most first.
        newest_at: when a row came last, as text; None without one.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    flows: Counter[str] = field(default_factory=Counter)
    rules: dict[str, RuleCounts] = field(default_factory=dict)
    origins: list[tuple[str, str, int]] = field(default_factory=list)
    conditions: Counter[str] = field(default_factory=Counter)
    newest_at: str | None = None

    @property
    def origins_shown(self) -> list[tuple[str, str, int]]:
        """The origins of the most rows: their kind, their name, and the number of rows."""
        return sorted(self.origins, key=lambda one: (-one[2], one[1]))[:_ORIGINS]


def quarantine_counts(layout: StorageLayout, naming: Naming, dataset: str) -> QuarantineCounts:
    """The counts of a dataset; all zero if it never had a quarantined row.

    Raises:
        InvalidName: the name is none of a dataset.
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
        DeltaError: a table has other columns, or a file of it cannot be read.
    """
    name = naming.canonical(dataset)
    found = QuarantineCounts()
    _add(found, layout.quarantine(naming, name), _BY_RULE, is_dead_letter=False)
    for flow in flows_of(layout, naming, name):
        _add(found, dead_letter_table(flow.file.parent), _BY_CAUSE, is_dead_letter=True)
    return found


def _add(found: QuarantineCounts, path: str, by_rule: str, *, is_dead_letter: bool) -> None:
    if not has_log(path):
        return
    table = open_table(path)
    if table is None:
        return
    for row in plain_rows(table, "q", _BY_FLOW):
        found.statuses[str(row["status"])] += int(row["n"])
        if row["status"] == OPEN:
            found.flows[str(row["flow"])] += int(row["n"])
        found.newest_at = max(filter(None, (found.newest_at, row["newest"])), default=None)
    for row in plain_rows(table, "q", by_rule):
        found.rules.setdefault(str(row["rule"]), RuleCounts()).add(str(row["status"]), row["day"], int(row["n"]))
    found.origins += _origins(plain_rows(table, "q", _BY_ORIGIN))
    if is_dead_letter:
        found.conditions.update({str(row["condition"]): int(row["n"]) for row in plain_rows(table, "q", _BY_CONDITION)})


def _origins(rows: list[Mapping[str, Any]] | list[dict[str, Any]]) -> Iterator[tuple[str, str, int]]:
    for row in rows:
        kind = "file" if row["file"] else "topic" if row["topic"] else "unknown"
        yield kind, str(row["file"] or row["topic"] or ""), int(row["n"])
