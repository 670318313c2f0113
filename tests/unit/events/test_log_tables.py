"""The tables ``event_log_*``: rows, columns and order of columns, as Spark SQL over the same events gave them.

The golden file was written by the Spark SQL views that these tables replaced.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.events.envelope import Origin, Stamp, seq_no_at, to_row
from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.events.log_events import LogEvents
from headrace.events.log_tables import LOG_TABLES
from headrace.events.schema import SCHEMA
from headrace.events.types import (
    BatchDone,
    Event,
    FlowStateChanged,
    RowsSampled,
    TableEvaluated,
    UpdateCreated,
    UpdateStateChanged,
    Warned,
)
from headrace.events.update_timeline import pipeline_update_timeline
from headrace.model.custom_metrics import MetricValue
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.liveness import Liveness
from headrace.model.outcome import FlowCounts, FlowState, UpdateState

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
GOLDEN = Path(__file__).parent / "golden" / "log_tables.json"
VALID = ExpectationCount("valid", Action.DROP, 7, 3)
KNOWN = ExpectationCount('it\'s "known"', Action.WARN, 10, 0)
TOTAL = MetricValue("order_value", 12.5, is_total=True)
LAST = MetricValue("newest", 3.0, is_total=False)
ERROR = {"code": "FLOW.FAILED", "message": "it broke"}


def batch(number: int, flow: str = "a", epoch: int = 0, *counts: ExpectationCount, metrics: Any = ()) -> BatchDone:
    return BatchDone(flow, "t", epoch, number, FlowCounts(10, expectations=counts, metrics=metrics), 40)


EVENTS: tuple[tuple[str, Event], ...] = (
    # Its beginning was removed.
    ("gone", UpdateStateChanged(UpdateState.COMPLETED)),
    ("gone", batch(5, "a", 0, VALID)),
    (
        "u1",
        UpdateCreated("SCHEDULE", {}, {"refresh": ["t"], "full_refresh": [], "full_refresh_all": False}, user="ann"),
    ),
    ("u1", UpdateStateChanged(UpdateState.RUNNING)),
    ("u1", FlowStateChanged("a", "t", FlowState.RUNNING, attempt=1)),
    ("u1", batch(0, "a", 0, VALID, KNOWN, metrics=(TOTAL, LAST))),
    ("u1", RowsSampled("a", "t", 0, 0, "valid", ('{"id": 1}', '{"id": "zwölf"}'))),
    ("u1", batch(1)),
    # Repeated after a crash; the first record counts.
    ("u1", batch(0, "a", 0, ExpectationCount("valid", Action.DROP, 1, 9), metrics=(TOTAL,))),
    ("u1", batch(0, "a", 1, VALID)),
    ("u1", batch(0, "b", 0, KNOWN, metrics=(LAST,))),
    ("u1", Warned("W", "not of interest")),
    ("u1", TableEvaluated("a", "t", (VALID,))),
    ("u1", TableEvaluated("b", "t", ())),
    ("u1", UpdateStateChanged(UpdateState.FAILED, ERROR)),
    ("u2", UpdateCreated("USER_ACTION", {}, {"refresh": [], "full_refresh": ["t"], "reset_checkpoint": ["a"]})),
    ("u2", UpdateStateChanged(UpdateState.COMPLETED)),
    ("u3", UpdateCreated("USER_ACTION")),
    ("u3", UpdateStateChanged(UpdateState.RUNNING)),
    ("u3", batch(0, "a", 0, VALID, metrics=(TOTAL,))),
    ("u4", UpdateCreated("USER_ACTION", {}, {"full_refresh_all": True})),
)
HOLDERS = {
    "nobody": Liveness(is_held=False),
    "u3": Liveness(is_held=True, update_id="u3"),
    "an older version": Liveness(is_held=True),
}


def write_log(folder: Path) -> str:
    rows = []
    for number, (update_id, event) in enumerate(EVENTS):
        at = NOON + timedelta(seconds=number, microseconds=number)
        stamp = Stamp(seq_no_at(at), at, "i", f"{number:04}")
        rows.append(to_row(event, origin=Origin("p", "shop", update_id), stamp=stamp))
    path = str(folder / "events")
    # In two files, so that no order within a file matters.
    write_deltalake(path, pa.Table.from_pylist(rows[::2], SCHEMA))
    write_deltalake(path, pa.Table.from_pylist(rows[1::2], SCHEMA), mode="append")
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_log(tmp_path_factory.mktemp("log"))


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON has them, in an order that does not depend on theirs."""
    texts = (
        {
            name: value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
            for name, value in row.items()
        }
        for row in rows
    )
    return sorted(texts, key=json.dumps)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", [name for name in LOG_TABLES if name != "event_log_flows"])
def test_a_table_has_the_rows_and_columns_that_spark_sql_gave(log: str, name: str, holder: str) -> None:
    table = LOG_TABLES[name]

    found = table.compute(LogEvents(log), HOLDERS[holder])

    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))[name][holder]
    assert comparable(found.to_pylist()) == expected
    assert [part.split()[0].strip("`") for part in table.columns.split(", ")] == found.column_names


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_timeline_has_the_rows_and_columns_that_spark_sql_gave(log: str, holder: str) -> None:
    pipelines = [MonitoredPipeline("/shop", name="shop", log=log, liveness=HOLDERS[holder]), MonitoredPipeline("/new")]

    found = pipeline_update_timeline(pipelines)

    assert comparable(found.to_pylist()) == json.loads(GOLDEN.read_text(encoding="utf-8"))["timeline"][holder]


def test_a_log_without_batches_has_empty_tables(tmp_path: Path) -> None:
    row = to_row(UpdateCreated("U"), origin=Origin("p", "shop", "u"), stamp=Stamp(1, NOON, "i", "1"))
    write_deltalake(str(tmp_path), pa.Table.from_pylist([row], SCHEMA))

    events = LogEvents(str(tmp_path))

    sizes = {name: table.compute(events, HOLDERS["nobody"]).num_rows for name, table in LOG_TABLES.items()}
    assert sizes == dict.fromkeys(LOG_TABLES, 0) | {"event_log_updates": 1}


def test_events_of_another_form_are_left_out(tmp_path: Path) -> None:
    rows = [
        to_row(
            batch(number, "a", 0, VALID), origin=Origin("p", "shop", "u"), stamp=Stamp(number, NOON, "i", f"{number}")
        )
        for number in range(2)
    ]
    rows[0]["details"] = '{"flow_progress": {"data_quality": {"expectations": [{"name": ["x"]}]}}}'
    write_deltalake(str(tmp_path), pa.Table.from_pylist(rows, SCHEMA))

    found = LOG_TABLES["event_log_expectations"].compute(LogEvents(str(tmp_path)), HOLDERS["nobody"]).to_pylist()

    assert [(row["batch_id"], row["failed"]) for row in found] == [(1, 3)]
