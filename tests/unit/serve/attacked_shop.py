"""A pipeline in which every text that others choose is an attack on the pages that show it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from deltalake import write_deltalake
from tests.unit.plan.test_plan_files import DOCUMENT
from tests.unit.serve.checkpoint_files import stored_checkpoint
from tests.unit.serve.conftest import Shop, definitions
from tests.unit.serve.quarantine_rows import quarantine, quarantined_row

from headrace.alerts.alert import Alert, AlertState
from headrace.alerts.messages import Message, MessageKind
from headrace.alerts.outbox import Letter
from headrace.alerts.store import StoredAlerts, write_alerts
from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import Event, FlowStateChanged, RowsSampled, UpdateStateChanged, Warned
from headrace.events.upkeep import TableMaintained
from headrace.model.alert_rules import Severity
from headrace.model.column_lineage import ColumnLineage, ColumnUse, OutputColumn, Use
from headrace.model.dataset_id import DatasetId
from headrace.model.outcome import FlowState, UpdateCause, UpdateState
from headrace.plan.plan_file import PlanFile
from headrace.schedules.state import Firing, LastRun, Run, State, state_text
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.savepoints.manifest import SavedFlow, SavedTable, Savepoint, SavepointKind

SECTIONS = (
    *("graph", "updates", "alerts", "quarantine", "changes", "schedules", "savepoints", "maintenance", "doctor"),
)
ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'};alert(1);//",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
    "</title></script><iframe src=//evil>",
    "a\u202eb\u2028c",
    "../../etc/passwd",
    "%3Cscript%3E",
)


def attacked_shop(shop: Shop) -> Shop:
    """The shop, with attacks in its event log, its storage and its settings."""
    defined: list[Event] = [definitions()[0]]
    failed: list[Event] = []
    for attack, other in pairwise((*ATTACKS, "last")):
        table, _, _, flow, *_ = definitions()
        defined += [replace(table, dataset=attack, comment=attack, expectations=(attack,))]
        defined += [
            replace(flow, flow=attack, dataset=attack, comment=attack, trigger=attack, inputs=(attack + "x", other))
        ]
        defined[-1] = replace(defined[-1], columns=_attacking_lineage(attack, other))
        error = {"code": attack, "message": attack, "detail": attack, "hint": attack, "location": {"file": attack}}
        failed += [FlowStateChanged(attack, attack, FlowState.STARTING, reason=attack, attempt=1)]
        failed += [FlowStateChanged(attack, attack, FlowState.FAILED, reason=attack, attempt=1, error=error)]
        failed += [RowsSampled(attack, attack, 0, 0, attack, (json.dumps({attack: attack}, ensure_ascii=False),))]
        failed += [Warned(attack, attack, flow=attack, dataset=attack)]
    defined += [replace(flow, flow="kept", dataset="kept")]
    selected = {name: list(ATTACKS) for name in ("refresh", "full_refresh", "reset_checkpoint")}
    first, last = ATTACKS[0], UpdateStateChanged(UpdateState.FAILED, error)
    shop.update("u0", UpdateStateChanged(UpdateState.COMPLETED), cause=first, code_digest="a", git_commit=first)
    made = {"plan_id": "pl-1", "request_id": ATTACKS[1], "code_digest": "b", "git_commit": ATTACKS[1]}
    shop.update("u1", *defined, *failed, last, cause=first, selections=selected, **made)
    _attack_storage(shop)
    schedules = "schedules: {nightly: {cron: '0 2 * * *'}}"
    (shop.root / "pipeline.yml").write_text(f"name: {json.dumps(''.join(ATTACKS[:4]))}\n{schedules}\n")
    return shop


def attacked_paths(slug: str) -> list[str]:
    """The pages that show the texts, and the same pages asked for with attacks in their addresses."""
    paths = ["/", f"/p/{slug}", f"/p/{slug}/u/u1", *(f"/p/{slug}/{name}" for name in SECTIONS)]
    paths += [f"/p/{slug}/{kind}/{attack}" for kind in "df" for attack in ATTACKS]
    asked = ("show=rows", "from=0&to=1", "from=0&to=1&key=id", "show=rows&where=id&is=%3C&value=3")
    paths += [f"/p/{slug}/d/orders?{query}" for query in asked]
    queries = ("show=rows&columns", "show=rows&where=id&value", "show=rows&where", "show=rows&is", "from=0&to=1&key")
    paths += [f"/p/{slug}/d/orders?{query}={quote(attack)}" for query in queries for attack in ATTACKS[:2]]
    paths += [f"/p/{slug}/{query}" for query in ("changes?plan=pl-1", "savepoints?savepoint=sp-1")]
    paths += [f"/p/{slug}/{name}" for name in ("settings", "requests", "forms/start_update", "forms/make_plan")]
    paths += [f"/p/{slug}/forms/{query}" for query in (f"roll_back?plan={quote(ATTACKS[0])}", "replay?dataset=orders")]
    queries = (
        "graph?focus",
        "graph?update",
        "changes?plan",
        "savepoints?savepoint",
        "quarantine?dataset",
        "schedules?page",
    )
    queries += ("alerts?request", "forms/replay?rule", "forms/roll_back?plan")
    paths += [f"/p/{slug}/{query}={quote(ATTACKS[1])}" for query in queries]
    paths += [f"/p/{slug}?request={quote(attack)}" for attack in ATTACKS]
    paths += [f"/p/{slug}/u/u1?level=METRICS", f"/p/{slug}/f/kept"]
    paths += [f"/p/{slug}/u/u1?{name}={quote(ATTACKS[1])}" for name in ("flow", "level", "page")]
    paths += [f"/help?q={quote(attack)}" for attack in ATTACKS]
    paths += [
        f"{path}{attack}"
        for path in (*(f"/p/{slug}/{one}" for one in ("d/no", "u/", "requests/", "forms/")), "/help/", "/")
        for attack in ATTACKS
    ]
    return paths


def _attacking_lineage(attack: str, other: str) -> ColumnLineage:
    """Columns that come from a dataset of the pipeline and from one outside of it."""
    uses = tuple(ColumnUse(dataset, attack, Use.JOIN) for dataset in (other, DatasetId(attack, attack)))
    return ColumnLineage((OutputColumn(attack, uses),), uses, is_complete=False)


def _attack_storage(shop: Shop) -> None:
    """Every text in what others write into the storage and the project is an attack."""
    layout = load_settings(shop.root / "pipeline.yml", environ={}).layout
    at, first = shop.clock.at.timestamp(), ATTACKS[0]
    saved = [SavedTable(one, one, one, one, one, 1) for one in ATTACKS]
    flows = tuple(SavedFlow(one, one, one, one, one, 0) for one in ATTACKS)
    made_with = {first: first}
    point = Savepoint(
        "sp-1",
        first,
        SavepointKind.MANUAL,
        at,
        first,
        first,
        made_with,
        first,
        has_code=True,
        tables=tuple(saved),
        flows=flows,
    )
    folder = shop.root / "storage" / "savepoints" / "sp-1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({**point.to_json(), "plan_id": first}))
    change = {"class": "rebuild", "flow": first, "rows_cleared": 1, "old_rows": None}
    changes = [{**change, "dataset": one, "why": one, "downstream": [one]} for one in ATTACKS]
    steps = {"flows": [{"flow": one, "decision": one, "reason": one} for one in ATTACKS]}
    steps["tables"] = [{"dataset": one, "change": one, "reason": one} for one in ATTACKS]
    stored_checkpoint(shop, "kept", *({one: {"0": 1}} for one in ATTACKS), files=ATTACKS)
    times = {"made_at": first, "expires_at": "2026-11-30T12:00:00+00:00"}
    plan = PlanFile({**DOCUMENT, **times, "made_by": first, "plan_id": "pl-1", "changes": changes, "steps": steps})
    (shop.root / "<b>.json").write_text(plan.approved(first, shop.clock.at, first).to_text())
    alerts = [
        Alert(one, Severity.BAD, {"flow": one, "dataset": one}, one, one, AlertState.OPEN, at, at) for one in ATTACKS
    ]
    letter = Letter(Message(first, first, MessageKind.OPENED, first, first, at), 1, at, first)
    write_alerts(Path(layout.monitoring(MonitoringFile.ALERTS)), StoredAlerts(tuple(alerts)))
    outbox = Path(layout.monitoring(MonitoringFile.OUTBOX))
    outbox.mkdir()
    (outbox / "a.json").write_text(json.dumps(letter.to_json()))
    last = LastRun(first, at, at, at, first, first)
    run = Run((Firing(first, at, UpdateCause.SCHEDULE, (first,)),), started_at=at, host=first)
    state = Path(layout.monitoring(MonitoringFile.SCHEDULES))
    state.parent.mkdir()
    state.write_text(state_text(State(running=run, waiting=run, last={"nightly": last})))
    with EventLog(
        layout.monitoring(MonitoringFile.OPERATIONS),
        origin=Origin("p", "shop", "m"),
        clock=shop.clock.event_time,
        new_id=iter(f"m-{number}" for number in range(99)).__next__,
        maintenance=lambda _path, _compacts: None,
    ) as log:
        for one in ATTACKS:
            log.emit(TableMaintained(one, one, one, one, one))
    _attack_table(shop.table("orders"))
    rows = [quarantined_row([one], flow=one, file=one, mail=one) for one in ATTACKS]
    quarantine(f"{shop.table('orders')}_quarantine", *rows)


def _attack_table(path: str) -> None:
    """A table of two versions, whose columns and values are attacks."""
    for number in range(2):
        columns = {f"{number}{one}": [f"{one}{number}", one] for one in ATTACKS}
        everywhere = {one: [f"{one}{number}", one] for one in ATTACKS}
        rows = pa.table({"id": [number, 2], **everywhere, **columns})
        write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
