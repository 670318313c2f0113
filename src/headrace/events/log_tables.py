"""The tables ``event_log_*`` of SQL, computed from the event log without Spark.

An update that has not ended is LOST unless the lease's holder runs it. Of each batch only the first record counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.events.flow_results import FLOW_COLUMNS, event_log_flows
from headrace.events.json_columns import parsed_bodies
from headrace.events.log_events import LogEvents
from headrace.events.stream_reports import TIME
from headrace.events.types import (
    TERMINAL_UPDATE_STATES,
    FlowStateChanged,
    RowsSampled,
    TableEvaluated,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.events.update_states import update_states
from headrace.model.liveness import Liveness

_UPDATES = pa.schema(
    [
        *((name, pa.string()) for name in ("update_id", "cause", "user", "state")),
        *((name, TIME) for name in ("started_at", "ended_at")),
        *((name, pa.string()) for name in ("error_code", "error_message")),
    ]
)
# What tables with a row for each part of an event have of it.
_ORIGIN = ("update_id", "flow", "dataset", "epoch", "batch_id", "timestamp")
_ORIGIN_COLUMNS = "update_id STRING, flow STRING, dataset STRING, epoch BIGINT, batch_id BIGINT, timestamp TIMESTAMP"
_COUNTS = pa.struct(
    [
        *((name, pa.string()) for name in ("name", "action")),
        *((name, pa.int64()) for name in ("passed_records", "failed_records")),
    ]
)
_METRIC = pa.struct([("name", pa.string()), ("value", pa.float64()), ("kind", pa.string())])
_QUALITY = pa.struct([("data_quality", pa.struct([("expectations", pa.list_(_COUNTS))]))])
_EVALUATED = pa.struct([("expectations", pa.list_(_COUNTS))])
_CUSTOM = pa.struct([("metrics", pa.struct([("custom", pa.list_(_METRIC))]))])
_SAMPLED = pa.struct(
    [
        *((name, pa.int64()) for name in ("epoch", "batch_id")),
        ("expectation", pa.string()),
        ("rows", pa.list_(pa.string())),
    ]
)
_PARSED_AT_ONCE = 4096
_ENDED = frozenset(state.value for state in TERMINAL_UPDATE_STATES)


@dataclass(frozen=True)
class LogTable:
    """A table: how it is computed, and its columns for Spark."""

    compute: Callable[[LogEvents, Liveness], pa.Table]
    columns: str


def event_log_updates(events: LogEvents, liveness: Liveness) -> pa.Table:
    """One row per update: its cause and user, state, start and end, and the error that failed it."""
    states = update_states(events.states, liveness)
    found: dict[str, dict[str, Any]] = {}
    for row in events.states:
        if row["event_type"] == FlowStateChanged.event_type or row["update_id"] not in states:
            continue
        update_id, at = row["update_id"], row["timestamp_us"]
        update = found.setdefault(update_id, {"update_id": update_id, "started_at": at})
        update["started_at"] = min(update["started_at"], at)
        body = json.loads(row["details"])[row["event_type"]]
        if row["event_type"] == UpdateCreated.event_type:
            update |= {"cause": body.get("cause"), "user": body.get("user")}
        elif row["event_type"] == UpdateStateChanged.event_type:
            error = body.get("error") or {}
            update |= {"error_code": error.get("code"), "error_message": error.get("message")}
            if body["state"] in _ENDED:
                update["ended_at"] = max(update.get("ended_at", at), at)
    rows = [{**update, "state": states[update_id]} for update_id, update in found.items()]
    return pa.Table.from_pylist(rows, _UPDATES)


def event_log_expectations(events: LogEvents, liveness: Liveness) -> pa.Table:
    """One row per expectation, flow and batch: the number of rows that passed and failed, and the action.

    Table rules have one row per update, without epoch and batch.
    """
    del liveness
    of_batches = _parts(
        events.batches_that_have("expectations"), FlowStateChanged.event_type, _QUALITY, "data_quality", "expectations"
    )
    evaluated = events.of_type(TableEvaluated.event_type)
    of_tables = _parts(evaluated, TableEvaluated.event_type, _EVALUATED, "expectations")
    names = {
        "expectation": "name",
        "action": "action",
        "passed": "passed_records",
        "failed": "failed_records",
    }
    return pa.concat_tables([_named(of_batches, names), _named(of_tables, names)])


def event_log_broken_rows(events: LogEvents, liveness: Liveness) -> pa.Table:
    """One row per sampled row that violated an expectation, as the text of a JSON object."""
    del liveness
    sampled = events.of_type(RowsSampled.event_type)
    bodies = _bodies(sampled, RowsSampled.event_type, _SAMPLED)
    rows = pc.struct_field(bodies, "rows")
    of_rows = pc.list_parent_indices(rows)
    known = {name: pc.struct_field(bodies, name) for name in ("epoch", "batch_id", "expectation")}
    columns = {**{name: sampled.column(name) for name in _ORIGIN}, **known}
    columns = {name: column.take(of_rows) for name, column in columns.items()}
    return pa.table({**columns, "row": pc.list_flatten(rows)})


def event_log_metrics(events: LogEvents, liveness: Liveness) -> pa.Table:
    """One row per metric of the user, flow and batch. ``kind`` is ``total`` if values add up, else ``last``."""
    del liveness
    found = _parts(events.batches_that_have("custom"), FlowStateChanged.event_type, _CUSTOM, "metrics", "custom")
    return _named(found, {"metric": "name", "value": "value", "kind": "kind"})


def _parts(rows: pa.Table, event_type: str, body: pa.StructType, *path: str) -> tuple[pa.Table, pa.StructArray]:
    """The parts in a list of each body, and of each part what its event has."""
    lists = pc.struct_field(_bodies(rows, event_type, body), list(path))
    return rows.select(list(_ORIGIN)).take(pc.list_parent_indices(lists)), pc.list_flatten(lists)


def _bodies(rows: pa.Table, event_type: str, body: pa.StructType) -> pa.StructArray:
    # If one has another form, those that are parsed with it are parsed one by one.
    batches = rows.select(["details"]).to_batches(max_chunksize=_PARSED_AT_ONCE)
    parsed = [parsed_bodies(batch.column(0).to_pylist(), event_type, body) for batch in batches]
    return pa.concat_arrays([pa.array([], body), *parsed])


def _named(found: tuple[pa.Table, pa.StructArray], names: Mapping[str, str]) -> pa.Table:
    origin, parts = found
    for column, field in names.items():
        origin = origin.append_column(column, pc.struct_field(parts, field))
    return origin


LOG_TABLES: Mapping[str, LogTable] = {
    "event_log_updates": LogTable(
        event_log_updates,
        "update_id STRING, cause STRING, user STRING, state STRING, started_at TIMESTAMP, ended_at TIMESTAMP, "
        "error_code STRING, error_message STRING",
    ),
    "event_log_flows": LogTable(event_log_flows, FLOW_COLUMNS),
    "event_log_expectations": LogTable(
        event_log_expectations,
        f"{_ORIGIN_COLUMNS}, expectation STRING, action STRING, passed BIGINT, failed BIGINT",
    ),
    "event_log_broken_rows": LogTable(event_log_broken_rows, f"{_ORIGIN_COLUMNS}, expectation STRING, `row` STRING"),
    "event_log_metrics": LogTable(event_log_metrics, f"{_ORIGIN_COLUMNS}, metric STRING, value DOUBLE, kind STRING"),
}
