"""The table ``event_log_flows``, computed from the event log without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.events.json_columns import parsed_bodies
from headrace.events.log_events import LogEvents
from headrace.events.stream_reports import TIME
from headrace.events.types import FlowStateChanged, UpdateTotals
from headrace.events.update_states import update_states
from headrace.model.liveness import Liveness
from headrace.model.outcome import ACTIVE_STATES, FlowState, UpdateState

FLOW_COLUMNS = (
    "update_id STRING, flow STRING, dataset STRING, state STRING, reason STRING, rows_written BIGINT, "
    "rows_dropped BIGINT, rows_quarantined BIGINT, batches BIGINT, attempts INT, duration_s DOUBLE, "
    "last_event_at TIMESTAMP"
)
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("update_id", "flow", "dataset", "state", "reason")),
        *((name, pa.int64()) for name in ("rows_written", "rows_dropped", "rows_quarantined", "batches")),
        ("attempts", pa.int32()),
        ("duration_s", pa.float64()),
        ("last_event_at", TIME),
    ]
)
_BODY = pa.struct(
    [
        ("metrics", pa.struct([("num_output_rows", pa.int64())])),
        ("data_quality", pa.struct([("dropped_records", pa.int64()), ("quarantined_records", pa.int64())])),
    ]
)
_KEY = ("update_id", "flow", "epoch", "batch_id")

_Flow = tuple[str, str]
# Rows written, dropped and quarantined, and batches.
_Counts = tuple[int, int, int, int]
_NONE: _Counts = (0, 0, 0, 0)


def event_log_flows(events: LogEvents, liveness: Liveness) -> pa.Table:
    """One row per flow and update: its last state, rows, attempts and duration; duplicate batches count once.

    Counts are the recorded totals of the update, and the batches after them.
    """
    updates = update_states(events.states, liveness)
    totals = {update_id: _flows_of(details) for update_id, (_, details) in events.totals.items()}
    later = _later_counts(events, totals)
    seen = _last_events(events.of_flows)
    rows = []
    for (update_id, flow), known in _states(events).items():
        if update_id not in updates:
            continue
        counted = _counts_of(totals.get(update_id, {}).get(flow))
        sums = [sum(pair) for pair in zip(counted, later.get((update_id, flow), _NONE), strict=True)]
        is_lost = updates[update_id] == UpdateState.LOST.value and known["state"] in _ACTIVE
        state = FlowState.LOST.value if is_lost else known["state"]
        counts = dict(zip(("rows_written", "rows_dropped", "rows_quarantined", "batches"), sums, strict=True))
        rows.append({**known, **counts, "state": state, "last_event_at": seen.get((update_id, flow))})
    return pa.Table.from_pylist(rows, _SCHEMA)


_ACTIVE = frozenset(state.value for state in ACTIVE_STATES)


def _states(events: LogEvents) -> dict[_Flow, dict[str, Any]]:
    """What is known of each flow in each update, except its counts."""
    found: dict[_Flow, dict[str, Any]] = {}
    for row in events.states:
        if row["event_type"] != FlowStateChanged.event_type:
            continue
        body, key = json.loads(row["details"])[FlowStateChanged.event_type], (row["update_id"], row["flow"])
        before = found.get(key, {"attempts": 0, "dataset": ""})
        found[key] = {
            "update_id": row["update_id"],
            "flow": row["flow"],
            "dataset": max(before["dataset"], row["dataset"]),
            "state": body["status"],
            "reason": body.get("reason"),
            "attempts": max(before["attempts"], body["attempt"]),
            "duration_s": body.get("duration_s"),
        }
    return found


def _flows_of(totals: str) -> dict[str, Mapping[str, Any]]:
    return {str(total["flow"]): total for total in json.loads(totals)[UpdateTotals.event_type]["flows"]}


def _counts_of(total: Mapping[str, Any] | None) -> _Counts:
    if total is None:
        return _NONE
    metrics, quality = total["metrics"] or {}, total["data_quality"] or {}
    rows = (metrics.get("num_output_rows"), quality.get("dropped_records"), quality.get("quarantined_records"))
    counts = (*rows, total.get("batches"))
    return tuple(count or 0 for count in counts)  # type: ignore[return-value]


def _last_events(of_flows: pa.Table) -> dict[_Flow, Any]:
    """When each flow in each update last reported something else than a batch."""
    others = of_flows.filter(pc.is_null(of_flows.column("batch_id")))
    newest = others.group_by(["update_id", "flow"]).aggregate([("timestamp", "max")]).to_pylist()
    return {(row["update_id"], row["flow"]): row["timestamp_max"] for row in newest}


def _later_counts(events: LogEvents, totals: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[_Flow, _Counts]:
    """The counts of batches that are not in the totals of their update.

    An older version did not record the number of batches in totals; then all batches are counted.
    """
    counted_up_to = {
        update_id: totals_id
        for update_id, (totals_id, _) in events.totals.items()
        if all(total.get("batches") is not None for total in totals[update_id].values())
    }
    first = _first_records(events.of_flows, counted_up_to)
    if not first.num_rows:
        return {}
    details = events.batches_with_details(pc.min(first.column("id")).as_py())
    details = details.filter(pc.is_in(details.column("id"), first.column("id").combine_chunks()))
    bodies = parsed_bodies(details.column("details").to_pylist(), FlowStateChanged.event_type, _BODY)
    counts = dict(zip(details.column("id").to_pylist(), bodies.to_pylist(), strict=True))
    found: dict[_Flow, _Counts] = {}
    for row in first.to_pylist():
        flow = (row["update_id"], row["flow"])
        total = totals.get(row["update_id"], {}).get(row["flow"])
        is_later = total is None or (
            row["id"] > events.totals[row["update_id"]][0]
            and (row["epoch"] != total["epoch"] or row["batch_id"] > total["batch_id"])
        )
        if is_later or (total is not None and total.get("batches") is None):
            more = (*_counts_of(counts[row["id"]])[:3], 1) if is_later else (0, 0, 0, 1)
            written, dropped, quarantined, batches = found.get(flow, _NONE)
            found[flow] = (written + more[0], dropped + more[1], quarantined + more[2], batches + more[3])
    return found


def _first_records(of_flows: pa.Table, counted_up_to: Mapping[str, str]) -> pa.Table:
    """The first record of each batch, without those that totals of their update count."""
    batches = of_flows.filter(pc.is_valid(of_flows.column("batch_id")))
    updates = batches.column("update_id").combine_chunks().dictionary_encode()
    limits = pa.array([counted_up_to.get(update_id, "") for update_id in updates.dictionary.to_pylist()], pa.string())
    is_later = pc.greater(batches.column("id"), limits.take(updates.indices))
    later, earlier = batches.filter(is_later), batches.filter(pc.invert(is_later))
    firsts: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(later.to_pylist(), key=lambda row: str(row["id"])):
        firsts.setdefault(tuple(row[name] for name in _KEY), row)
    # A crash repeats a batch that totals may count already.
    repeated = earlier.filter(pc.is_in(earlier.column("batch_id"), later.column("batch_id").combine_chunks()))
    for row in repeated.select(list(_KEY)).to_pylist():
        firsts.pop(tuple(row[name] for name in _KEY), None)
    return pa.Table.from_pylist(list(firsts.values()), batches.schema)
