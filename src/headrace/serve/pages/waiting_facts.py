"""The newest waiting rows of a quarantine as facts: bounded, without secrets, and only for roles that may see rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.project.inspection.diagnosis.careful_reading import CarefulReading
from headrace.project.inspection.waiting_rows import WaitingRow, WaitingRows, waiting_rows
from headrace.serve.formats import iso
from headrace.serve.pages.cells import cell, cut
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.roles import Role, refusal

_LIMIT = 20
_LONGEST_ERROR = 2000
_MOST_COLUMNS = 100
_MOST_RULES = 50
_ORIGIN = ("file", "topic", "partition", "offset", "version")


def shown_rows(
    pipeline: ServedPipeline, reading: CarefulReading, dataset: str, rule: str, role: Role
) -> dict[str, Any]:
    """The newest waiting rows of a dataset for whoever looks; a role that may not see them gets the reason.

    Args:
        pipeline: the pipeline.
        reading: notes rows that cannot be read.
        dataset: its name.
        rule: only rows that violate this rule; empty for all.
        role: of whoever looks.
    """
    facts: dict[str, Any] = {"refusal": refusal(role, Role.OPERATOR) or None, "found": None}
    if facts["refusal"] is None:
        read = partial(waiting_facts, pipeline, dataset, rule)
        facts["found"] = reading.read(f'the quarantined rows of "{dataset}"', read, None)
    return facts


def waiting_facts(pipeline: ServedPipeline, dataset: str, rule: str, limit: int = _LIMIT) -> dict[str, Any]:
    """The newest waiting rows of a dataset, or those of a moment ago. For roles that may see rows.

    Args:
        pipeline: the pipeline.
        dataset: its name.
        rule: only rows that violate this rule; empty for all.
        limit: the maximum number of rows.

    Raises:
        PipelineError: QUARANTINE.NONE, QUARANTINE.UNREADABLE, STORAGE.TABLE_UNREADABLE.
    """

    def read() -> dict[str, Any]:
        settings = pipeline.settings
        found = waiting_rows(settings.layout, settings.naming, dataset, rule, limit)
        return {"dataset": dataset, "rule": rule or None, "limit": limit, **_facts(found, pipeline)}

    return pipeline.remembered.of(("waiting rows", dataset, rule, limit), read)


def _facts(found: WaitingRows, pipeline: ServedPipeline) -> dict[str, Any]:
    columns = list(dict.fromkeys(column for row in found.rows for column in row.values))
    shown = columns[:_MOST_COLUMNS]
    rows = [_row(row, shown, pipeline) for row in found.rows]
    return {
        "waiting": found.total,
        "columns": shown,
        "column_count": len(columns),
        "is_cut": any(one is not None and one["is_cut"] for row in rows for one in (row["error"], *row["values"])),
        "rows": rows,
    }


def _row(row: WaitingRow, columns: list[str], pipeline: ServedPipeline) -> dict[str, Any]:
    return {
        "rules": list(row.rules[:_MOST_RULES]),
        "values": [cell(row.values[column], pipeline.redact) if column in row.values else None for column in columns],
        "error": None if row.error is None else cut(pipeline.redact(row.error), _LONGEST_ERROR),
        "condition": row.condition,
        "sink": row.sink,
        "origin": {name: row.source.get(name) for name in _ORIGIN},
        "flow": row.flow,
        "update_id": row.update_id,
        "quarantined_at": iso(row.quarantined_at),
    }
