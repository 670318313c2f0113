"""Counts quarantined rows and dead letters. Apart from what shows rows, which takes long to import."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from headrace.delta_log.plain_rows import plain_rows
from headrace.delta_log.tables import open_table_log
from headrace.model.names import QUARANTINE_SUFFIX, Naming
from headrace.settings.storage import StorageLayout
from headrace.storage.dead_letter_tables import QUERY_FAILED, SINK_REFUSED, dead_letter_table
from headrace.storage.inventory import stored_flows, stored_tables
from headrace.stores.delta_tables import open_delta

_BY_RULE = """\
SELECT rule, count(*) AS n FROM (SELECT unnest(broken) AS rule FROM q WHERE status = 'open') AS t
GROUP BY rule ORDER BY rule"""
_BY_CAUSE = f"""\
SELECT CASE WHEN sink IS NULL THEN '{QUERY_FAILED}' ELSE '{SINK_REFUSED}' END AS rule, count(*) AS n FROM q
WHERE status = 'open' GROUP BY 1 ORDER BY 1"""  # noqa: S608 - words of ours
_OPEN = "SELECT count(*) AS n FROM q WHERE status = 'open'"


def quarantines(layout: StorageLayout, naming: Naming) -> tuple[tuple[str, int, Mapping[str, int]], ...]:
    """For each dataset with a quarantine: its open rows, and the number of rows per violated rule."""
    rows: Counter[str] = Counter()
    rules: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, path in quarantine_tables(layout, naming).items():
        table = open_delta(path)
        rows[name] += int(plain_rows(table, "q", _OPEN)[0]["n"])
        rules[name] |= {row["rule"]: row["n"] for row in plain_rows(table, "q", _BY_RULE)}
    for name, paths in dead_letter_tables(layout, naming).items():
        for path in paths:
            for found in plain_rows(open_delta(path), "q", _BY_CAUSE):
                rows[name] += found["n"]
                rules[name][found["rule"]] = rules[name].get(found["rule"], 0) + found["n"]
    return tuple((name, rows[name], rules[name]) for name in sorted(rows))


def quarantine_tables(layout: StorageLayout, naming: Naming) -> dict[str, str]:
    """The quarantine tables, by the names of their datasets."""
    stored = ((str(name), path) for name, path in stored_tables(layout, naming))
    return {name[: -len(QUARANTINE_SUFFIX)]: path for name, path in stored if name.endswith(QUARANTINE_SUFFIX)}


def dead_letter_tables(layout: StorageLayout, naming: Naming) -> dict[str, list[str]]:
    """The dead letter tables, by the names of their flows' targets."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for flow in stored_flows(layout, naming):
        path = dead_letter_table(flow.file.parent)
        if open_table_log(path) is not None:
            found[str(flow.dataset)].append(path)
    return found
