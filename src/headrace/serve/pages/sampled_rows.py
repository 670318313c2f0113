"""Samples of the newest rows of a dataset that violated expectations. Rows may be personal data: a role sees them."""

from __future__ import annotations

from itertools import islice
from typing import Any

from headrace.delta_log.tables import sql_literal
from headrace.events.recorded import recorded_rows
from headrace.events.types import RowsSampled
from headrace.serve.formats import iso
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.roles import Role

MOST_ROWS = 50
# Of the text of one row.
MOST_CHARACTERS = 2_000
_EVENTS = 50
_REFUSED = "Rows may be personal data: they need the role operator."


def sampled_rows(pipeline: ServedPipeline, dataset: str, role: Role) -> dict[str, Any]:
    """The newest samples, the newest first, each as the text of a JSON object; for a lesser role, why it has no rows.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    if not role.includes(Role.OPERATOR):
        return {"rows": [], "more": False, "refused": _REFUSED}
    found: list[dict[str, Any]] = pipeline.remembered.of(("samples", dataset), lambda: _read(pipeline, dataset))
    return {"rows": found[:MOST_ROWS], "more": len(found) > MOST_ROWS, "refused": None}


def _read(pipeline: ServedPipeline, dataset: str) -> list[dict[str, Any]]:
    reader = pipeline.events()
    if not reader.exists:
        return []
    where = f"event_type = '{RowsSampled.event_type}' AND origin['dataset_name'] = {sql_literal(dataset)}"
    events = recorded_rows(reader, where, f"id DESC LIMIT {_EVENTS}")
    rows = (
        {
            "expectation": one.event.expectation,
            "at": iso(one.at),
            "update_id": one.update_id,
            "flow": one.event.flow,
            "batch_id": one.event.batch_id,
            "row": row[:MOST_CHARACTERS],
            "is_cut": len(row) > MOST_CHARACTERS,
        }
        for one in events
        if isinstance(one.event, RowsSampled)
        # A cut secret could not be found any more.
        for row in map(pipeline.redact, one.event.rows)
    )
    # One more than is shown, to know whether there are more.
    return list(islice(rows, MOST_ROWS + 1))
