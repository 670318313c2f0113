"""The pipeline that the tests of pages look at: something of everything that a page can show, at a fixed time."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from tests.unit.plan.test_plan_files import DOCUMENT
from tests.unit.serve.checkpoint_files import stored_checkpoint
from tests.unit.serve.conftest import FAILURE, SCHEMA, Shop, batch, new_shop, progress, state
from tests.unit.serve.quarantine_rows import quarantine, quarantined_row
from tests.unit.serve.test_changes_page import CHANGES
from tests.unit.serve.test_savepoints_page import savepoint, stored

from headrace.events.types import (
    DatasetDefined,
    Event,
    ExternalInput,
    FlowDefined,
    FlowLagMetrics,
    RowsSampled,
    SinkDefined,
    UpdateStateChanged,
)
from headrace.model.column_lineage import ColumnLineage, ColumnUse, OutputColumn, Use
from headrace.model.dataset_id import DatasetId
from headrace.model.datasets import Kind
from headrace.model.outcome import FlowState, TableLag, UpdateCause, UpdateState
from headrace.plan.plan_file import PlanFile
from headrace.schedules.state import Firing, LastRun, Run, State, state_text
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile

_SETTINGS = """\
name: shop
schedules:
  nightly: {cron: "0 2 * * *", timezone: Europe/Berlin, refresh: [revenue_by_day]}
  arrivals: {files: /data/landing, quiet: 60s, at_most_every: 5m}
  fresh: {freshness: {revenue_by_day: 10m}}
"""
_CODE = """\
from headrace import pipelines as dp


@dp.table(comment="All orders, as they arrive")
@dp.expect_or_quarantine("valid", "amount > 0")
def orders():
    return spark.readStream.format("cloudFiles").load("/data/landing/orders")
"""
_UPDATES = 6
_CODE_CHANGES_AFTER = 3
_PLAN = "pl-20261120-3f9c"
_SAVEPOINT = "sp-20261120T120000Z-7e57"
_CLEAN_ORDERS = ColumnLineage(
    (
        OutputColumn("id", (ColumnUse("orders", "id", Use.IDENTITY),)),
        OutputColumn("amount", (ColumnUse("orders", "amount", Use.TRANSFORMATION),)),
        OutputColumn("country", (ColumnUse("customers", "country", Use.IDENTITY),)),
        OutputColumn("source", ()),
    ),
    (
        ColumnUse("orders", "customer_id", Use.JOIN),
        ColumnUse("customers", "id", Use.JOIN),
        ColumnUse("orders", "amount", Use.FILTER),
    ),
)
_REVENUE_BY_DAY = ColumnLineage(
    (
        OutputColumn("day", (ColumnUse("clean_orders", "ordered_at", Use.TRANSFORMATION),)),
        OutputColumn("revenue", (ColumnUse("clean_orders", "amount", Use.AGGREGATION),)),
        OutputColumn("rate", (ColumnUse(DatasetId("s3://rates", "daily/rates"), "rate", Use.AGGREGATION),)),
    ),
    (ColumnUse("clean_orders", "ordered_at", Use.GROUP_BY),),
)
_REASONS = {
    "orders": "3 new files in /data/landing/orders",
    "customers": 'topic "customers" has new records',
    "clean_orders": 'reads "orders", "customers", updated first',
}
_TABLES = ("orders", "customers", "clean_orders", "revenue_by_day")


@dataclass(frozen=True)
class ServedPage:
    """A page by what it is called in tests.

    Attributes:
        name: of its picture.
        path: with its query.
        status: of the answer.
    """

    name: str
    path: str
    status: int = 200


PAGES = (
    ServedPage("pipelines", "/"),
    ServedPage("overview", "/p/shop"),
    ServedPage("graph", "/p/shop/graph"),
    ServedPage("graph-part", "/p/shop/graph?focus=clean_orders&hops=1"),
    ServedPage("past-graph", f"/p/shop/graph?update={_UPDATES - 1:08}&focus=clean_orders"),
    ServedPage("updates", "/p/shop/updates"),
    ServedPage("no-earlier-updates", "/p/shop/updates?before=0"),
    ServedPage("update", f"/p/shop/u/{_UPDATES:08}"),
    ServedPage("dataset", "/p/shop/d/orders"),
    ServedPage("versions", "/p/shop/d/orders?from=0&to=3"),
    ServedPage("rows", "/p/shop/d/orders?show=rows&where=id&is=IS+NOT+NULL&columns=id"),
    ServedPage("view", "/p/shop/d/revenue_by_country"),
    ServedPage("lineage", "/p/shop/d/clean_orders"),
    ServedPage("lineage-outside", "/p/shop/d/revenue_by_day"),
    ServedPage("sink", "/p/shop/d/orders_out"),
    ServedPage("flow", "/p/shop/f/orders"),
    ServedPage("failed-flow", "/p/shop/f/revenue_by_country"),
    ServedPage("alerts", "/p/shop/alerts"),
    ServedPage("quarantine", "/p/shop/quarantine"),
    ServedPage("quarantine-of-one", "/p/shop/quarantine?dataset=orders"),
    ServedPage("changes", "/p/shop/changes"),
    ServedPage("change", f"/p/shop/changes?plan={_PLAN}"),
    ServedPage("schedules", "/p/shop/schedules"),
    ServedPage("savepoints", "/p/shop/savepoints"),
    ServedPage("savepoint", f"/p/shop/savepoints?savepoint={_SAVEPOINT}"),
    ServedPage("maintenance", "/p/shop/maintenance"),
    ServedPage("sql", "/p/shop/sql"),
    ServedPage("preview", "/p/shop/preview?dataset=orders"),
    ServedPage("settings", "/p/shop/settings"),
    ServedPage("requests", "/p/shop/requests"),
    ServedPage("doctor", "/p/shop/doctor"),
    ServedPage("run", "/p/shop/forms/start_update"),
    ServedPage("make-plan", "/p/shop/forms/make_plan"),
    ServedPage("replay", "/p/shop/forms/replay?dataset=orders&rule=valid"),
    ServedPage("roll-back", f"/p/shop/forms/roll_back?plan={_PLAN}"),
    ServedPage("codes", "/help"),
    ServedPage("found-codes", "/help?q=kafka+offsets"),
    ServedPage("code", "/help/KAFKA.OFFSETS_LOST"),
    ServedPage("missing", "/p/shop/d/ordrs", 404),
)


def example_shop(folder: Path) -> Shop:
    """Write the pipeline into a folder, with its event log and tables; its clock stands still at the end."""
    shop = new_shop(folder)
    (folder / "pipeline.yml").write_text(_SETTINGS)
    (folder / "transformations" / "orders.py").write_text(_CODE)
    for number in range(1, _UPDATES + 1):
        digest, commit = ("sha256:b", "5e6f7a8b9c0d") if number > _CODE_CHANGES_AFTER else ("sha256:a", "1a2b3c4d5e6f")
        shop.update(
            *(f"{number:08}-0000", *_update(shop, number)),
            cause="SCHEDULE" if number % 3 else "USER_ACTION",
            code_digest=digest,
            git_commit=commit,
        )
        _write_tables(shop, number)
        shop.clock.at += timedelta(hours=1)
    shop.clock.at -= timedelta(minutes=55)
    _quarantine_rows(shop)
    _store_changes(shop)
    _store_schedules(shop)
    files = [f"/data/landing/orders/{number}.json" for number in range(2 * _UPDATES)]
    stored_checkpoint(shop, "orders", {"logOffset": 2 * _UPDATES - 1}, batch=2 * _UPDATES - 1, files=files)
    return shop


def _definitions() -> tuple[Event, ...]:
    return (
        DatasetDefined("orders", Kind.STREAMING_TABLE, "/tables/orders", ("valid",), SCHEMA, "All orders"),
        DatasetDefined("customers", Kind.STREAMING_TABLE, "/tables/customers"),
        DatasetDefined("clean_orders", Kind.STREAMING_TABLE, "/tables/clean_orders"),
        DatasetDefined("revenue_by_day", Kind.MATERIALIZED_VIEW, "/tables/revenue_by_day"),
        DatasetDefined("revenue_by_country", Kind.MATERIALIZED_VIEW, "/tables/revenue_by_country"),
        SinkDefined("orders_out", "kafka"),
        FlowDefined("orders", "orders", external_inputs=(ExternalInput("auto loader", "/data/landing/orders"),)),
        FlowDefined("customers", "customers", external_inputs=(ExternalInput("kafka", "customers"),)),
        FlowDefined(
            *("clean_orders", "clean_orders", ("orders", "customers")),
            trigger="as soon as possible",
            columns=_CLEAN_ORDERS,
        ),
        FlowDefined(
            "revenue_by_day", "revenue_by_day", ("clean_orders",), mode="MATERIALIZED_VIEW", columns=_REVENUE_BY_DAY
        ),
        FlowDefined("revenue_by_country", "revenue_by_country", ("clean_orders",), mode="MATERIALIZED_VIEW"),
        FlowDefined("publish", "orders_out", ("clean_orders",), mode="UPDATE"),
    )


def _update(shop: Shop, number: int) -> list[Event | tuple[float, Event]]:
    is_last = number == _UPDATES
    events: list[Event | tuple[float, Event]] = [*_definitions(), UpdateStateChanged(UpdateState.RUNNING)]
    for flow, why in _REASONS.items():
        events += [state(flow, FlowState.STARTING, reason=why), (2, state(flow, FlowState.RUNNING))]
        for batch_id in (2 * number - 2, 2 * number - 1):
            rows = 7 * number % 5 if flow == "orders" else 0
            at = shop.clock.at + timedelta(seconds=20)
            events += [(3, batch(batch_id, failed=rows, flow=flow)), progress(batch_id, at, flow=flow)]
        events += [(number, state(flow, FlowState.COMPLETED, duration_s=8.0 + number))]
    row = '{"id":41,"amount":-3.50,"customer":"Ann"}'
    events += [RowsSampled("orders", "orders", 0, 2 * number - 1, "valid", (row,))] if is_last else []
    lag = TableLag("landing", 2, 40, 4096, shop.clock.at)
    events += [FlowLagMetrics("orders", "orders", tables=(lag,))]
    after = 'reads "clean_orders", updated first'
    events += [state("revenue_by_day", FlowState.STARTING, reason=after)]
    events += [(4, state("revenue_by_day", FlowState.COMPLETED, duration_s=4.0))]
    events += [state("revenue_by_country", FlowState.STARTING, reason=after)]
    if is_last:
        error = {**FAILURE, "message": 'flow "revenue_by_country" failed'}
        events += [(2, state("revenue_by_country", FlowState.FAILED, error=error))]
        return [*events, UpdateStateChanged(UpdateState.FAILED, error)]
    events += [(3, state("revenue_by_country", FlowState.COMPLETED, duration_s=3.0))]
    events += [state("publish", FlowState.STARTING, "orders_out", reason=after)]
    events += [(1, state("publish", FlowState.COMPLETED, "orders_out", duration_s=1.0))]
    return [*events, UpdateStateChanged(UpdateState.COMPLETED)]


def _write_tables(shop: Shop, number: int) -> None:
    for name in _TABLES:
        write_deltalake(shop.table(name), pa.table({"id": [number], "amount": [10 * number]}), mode="append")
        shop.date_commit(name, number - 1)


def _quarantine_rows(shop: Shop) -> None:
    rows = [
        quarantined_row(["valid"], file=f"/data/landing/orders/{number}.json")
        | {"quarantined_at": shop.clock.at - timedelta(days=days), "update_id": f"{_UPDATES:08}-0000"}
        for number, days in enumerate((0, 0, 0, 1, 3, 4, 4, 9))
    ]
    quarantine(f"{shop.table('orders')}_quarantine", *rows)
    shop.date_commit("orders_quarantine", 0)


def _store_changes(shop: Shop) -> None:
    at = shop.clock.at
    made = {"made_at": (at - timedelta(hours=1)).isoformat(), "expires_at": (at + timedelta(days=1)).isoformat()}
    changes = [one.to_json() for one in CHANGES]
    plan = PlanFile({**copy.deepcopy(DOCUMENT), **made, "plan_id": _PLAN, "changes": changes})
    (shop.root / "change.plan.json").write_text(plan.to_text())
    older = savepoint("sp-20261119T120000Z-1111", "nightly")
    stored(shop, *(replace(one, made_at=at.timestamp() - 7200) for one in (older, savepoint(_SAVEPOINT))))


def _store_schedules(shop: Shop) -> None:
    at = shop.clock.seconds()
    waiting = Firing("arrivals", at - 600, UpdateCause.FILE_ARRIVAL, ("orders",), starts=1, failures=1)
    last = {
        "nightly": LastRun("COMPLETED", at - 7200, at - 7100, at - 7201, update_id="00000005-0000"),
        "arrivals": LastRun("FAILED", at - 300, at - 200, at - 600, message="Division by zero.", retries_at=at + 60),
    }
    layout = load_settings(shop.root / "pipeline.yml", environ={}).layout
    file = Path(layout.monitoring(MonitoringFile.SCHEDULES))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(state_text(State(leader=1, waiting=Run((waiting,), not_before=at + 60), last=last)))
