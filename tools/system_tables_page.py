"""The page of the system tables."""

from __future__ import annotations

from headrace.events.system_tables import QUERIES, QUERY_PROGRESS, SYSTEM_TABLES, SystemTable

_START = """\
# System tables

`headrace sql` has these tables beside those of the pipeline. They are views over the event log, so they cover running
and ended updates, and a process that was killed is `LOST`. Scripts (`headrace exec`) have the two tables
`system.streaming.*` with the same columns, for the streams of the running script. Columns that a script does not know
are NULL.

Rows disappear when their events expire: reports of streams after 30 days, updates after 400
([settings](settings.md): `event_log.retain`, `event_log.retain_metrics`).

## Queries

Streams that run now:

```sql
SELECT id, name, status
FROM system.streaming.queries
WHERE status = 'ACTIVE';
```

The newest reports of a stream:

```sql
SELECT
    query_id,
    batch_id,
    input_rows,
    processed_rows_per_second,
    batch_duration_ms
FROM system.streaming.query_progress
WHERE query_id = 'your-query-id'
ORDER BY batch_id DESC
LIMIT 20;
```

Reports in which a stream processed less than 100 rows per second, and where the time went:

```sql
SELECT query_name, timestamp, processed_rows_per_second, slowest_phase
FROM system.streaming.query_progress
WHERE processed_rows_per_second < 100
ORDER BY timestamp DESC;
```

The last update of each pipeline:

```sql
SELECT name, max_by(state, period_start_time) AS state, max(period_start_time) AS started_at
FROM system.lakeflow.pipelines
LEFT JOIN system.lakeflow.pipeline_update_timeline USING (pipeline_id)
GROUP BY name
ORDER BY name;
```

Errors of all pipelines:

```sql
SELECT pipeline_name, timestamp, message
FROM system.lakeflow.pipeline_events
WHERE level = 'ERROR'
ORDER BY timestamp DESC
LIMIT 20;
```

## Several pipelines

`system.lakeflow.*` covers the pipeline in whose folder you are, and those that you name with `--also`: a project, or a
folder whose subfolders are projects.

    headrace sql --also /srv/pipelines "SELECT name, problem FROM system.lakeflow.pipelines"

A pipeline that cannot be read has a row in `system.lakeflow.pipelines` with its `problem`. The others are not affected.

## Tables

Names and types of the columns of `system.lakeflow.*` are those of the vendor's system tables of the same names. Columns
without a description are always NULL, because only the vendor's service can fill them.
"""
_IN_SCRIPTS = "In scripts, NULL"
_UNKNOWN_IN_SCRIPTS = {"dataset", "epoch", "update_id"}


def system_tables_page() -> str:
    """The expected text of docs/reference/system-tables.md."""
    return "\n".join([_START, *(_section(table) for table in SYSTEM_TABLES)])


def _section(table: SystemTable) -> str:
    lines = [
        f"### {table.name}",
        "",
        f"One row for each {table.row}.",
        "",
        "| column | type | contents |",
        "|---|---|---|",
    ]
    for column in table.columns:
        known = column.meaning or ""
        if table in (QUERIES, QUERY_PROGRESS) and column.name in _UNKNOWN_IN_SCRIPTS:
            known = f"{known}. {_IN_SCRIPTS}"
        lines.append(f"| `{column.name}` | `{column.type}` | {known} |")
    return "\n".join(lines) + "\n"
