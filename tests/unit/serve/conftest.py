"""A pipeline with some updates in its event log, and the application over it, called in process."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.events.envelope import Origin
from headrace.events.log import EventLog
from headrace.events.types import (
    BatchDone,
    DatasetDefined,
    Event,
    ExternalInput,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    SinkDefined,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.model.batch_commit import BatchCommit
from headrace.model.datasets import Kind
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.outcome import FlowCounts, FlowState, TableLag, UpdateState
from headrace.model.stream_progress import BatchTiming, StreamBatches
from headrace.serve.addresses import addresses
from headrace.serve.app import Server, create_app
from headrace.serve.offers import Offers
from headrace.serve.page_endpoints import OPERATIONS
from headrace.serve.pipelines import served_pipelines
from headrace.serve.render import Frame, Page, Renderer
from headrace.serve.roles import Principal, Role
from headrace.serve.tokens import TokenFile

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOST = "127.0.0.1:8741"
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "integer", "nullable": True, "metadata": {}},
        {"name": "amount", "type": "decimal(10,2)", "nullable": True, "metadata": {"comment": "in euros"}},
    ],
}
FAILURE = {
    "code": "FLOW.FAILED",
    "message": 'flow "revenue" failed',
    "detail": "Division by zero.",
    "hint": "Correct the query.",
    "location": {"file": "transformations/gold.py", "line": 12},
    "params": {},
}


@dataclass
class Clock:
    """Time that a test moves."""

    at: datetime = NOON
    ticks: Any = field(default_factory=itertools.count)

    def now(self) -> datetime:
        return self.at

    def event_time(self) -> datetime:
        """A microsecond later each time, as events of one moment have."""
        return self.at + timedelta(microseconds=next(self.ticks))

    def seconds(self) -> float:
        return self.at.timestamp()


@dataclass
class Shop:
    """A project, whose events a test writes."""

    root: Path
    clock: Clock

    @property
    def events(self) -> str:
        return str(self.root / "storage" / "system" / "events")

    def table(self, name: str) -> str:
        return str(self.root / "storage" / "tables" / "default" / name)

    def date_commit(self, name: str, version: int) -> None:
        """Let the log of a table say that a commit was made now, by the clock."""
        commit = Path(self.table(name), "_delta_log", f"{version:020d}.json")
        at_ms = round(1000 * self.clock.seconds())
        commit.write_text(re.sub(r'"timestamp":\d+', f'"timestamp":{at_ms}', commit.read_text()))

    def update(
        self, update_id: str, *events: Event | tuple[float, Event], cause: str = "USER_ACTION", **created: Any
    ) -> None:
        """Write the events of an update; with each, the seconds that pass before it."""
        ids = itertools.count()
        origin = Origin("p", "shop", update_id)
        with EventLog(
            self.events,
            origin=origin,
            clock=self.clock.event_time,
            new_id=lambda: f"{update_id}-{next(ids)}",
            maintenance=lambda _path, _compacts: None,
        ) as log:
            log.emit(UpdateCreated(cause, user="ann", version="0.1.0", **created))
            for event in events:
                seconds, one = event if isinstance(event, tuple) else (1, event)
                self.clock.at += timedelta(seconds=seconds)
                log.emit(one)


def definitions(name: str = "orders") -> tuple[Event, ...]:
    """Files are read into a table, which a view reads, which a sink gets."""
    return (
        DatasetDefined(name, Kind.STREAMING_TABLE, "/tables/orders", ("valid",), SCHEMA, "All orders"),
        DatasetDefined("revenue", Kind.MATERIALIZED_VIEW, "/tables/revenue"),
        SinkDefined("shop_out", "kafka"),
        FlowDefined(
            name, name, external_inputs=(ExternalInput("auto loader", "/data/landing"),), trigger="as soon as possible"
        ),
        FlowDefined("revenue", "revenue", (name,), mode="MATERIALIZED_VIEW"),
        FlowDefined("publish", "shop_out", ("revenue",), mode="UPDATE"),
    )


def state(flow: str, value: FlowState, dataset: str | None = None, **more: Any) -> FlowStateChanged:
    return FlowStateChanged(flow, dataset or flow, value, attempt=1, **more)


def batch(number: int, *, failed: int = 0, flow: str = "orders") -> BatchDone:
    counts = FlowCounts(100 - failed, failed, 0, (ExpectationCount("valid", Action.DROP, 100 - failed, failed),))
    return BatchDone(flow, flow, 0, number, counts, 1000, commit=BatchCommit(number, 1, 2048))


def progress(number: int, at: datetime, *, flow: str = "orders") -> StreamProgress:
    phases = {"latest_offset": 200, "query_planning": 100, "add_batch": 900, "commit_offsets": 100}
    done = StreamBatches(
        number,
        2,
        at,
        2800,
        {name: 2 * ms for name, ms in phases.items()},
        200,
        20.0,
        71.4,
        timings=(
            BatchTiming(number - 1, at - timedelta(seconds=2), 1400, phases, 100),
            BatchTiming(number, at, 1400, phases, 100),
        ),
    )
    return StreamProgress(flow, flow, 0, "query", "run", done)


def new_shop(folder: Path) -> Shop:
    (folder / "pipeline.yml").write_text("name: shop\n")
    (folder / "transformations").mkdir()
    return Shop(folder, Clock())


@pytest.fixture
def shop(tmp_path):
    return new_shop(tmp_path)


@pytest.fixture(scope="session")
def seen_shop(tmp_path_factory):
    """Two updates: one that completed, and one in which a flow failed."""
    shop = new_shop(tmp_path_factory.mktemp("shop"))
    shop.update(
        "aaaa1111-0000",
        *definitions(),
        UpdateStateChanged(UpdateState.RUNNING),
        state("orders", FlowState.STARTING),
        (2, state("orders", FlowState.RUNNING)),
        (2, batch(0)),
        (2, batch(1, failed=10)),
        progress(1, shop.clock.at + timedelta(seconds=30)),
        FlowLagMetrics("orders", "orders", tables=(TableLag("landing", 2, 40, 4096, NOON),)),
        (30, state("orders", FlowState.COMPLETED, duration_s=40.0)),
        state("revenue", FlowState.STARTING),
        (5, state("revenue", FlowState.COMPLETED, duration_s=5.0)),
        UpdateStateChanged(UpdateState.COMPLETED),
        cause="SCHEDULE",
    )
    shop.clock.at += timedelta(hours=1)
    shop.update(
        "bbbb2222-0000",
        *definitions(),
        UpdateStateChanged(UpdateState.RUNNING),
        state("orders", FlowState.STARTING),
        (3, batch(2)),
        state("orders", FlowState.COMPLETED, duration_s=3.0),
        state("revenue", FlowState.STARTING),
        (1, state("revenue", FlowState.FAILED, error=FAILURE)),
        state("publish", FlowState.SKIPPED, "shop_out", reason="an input failed"),
        UpdateStateChanged(UpdateState.FAILED, FAILURE),
    )
    for number in range(3):
        write_deltalake(shop.table("orders"), pa.table({"id": [number]}), mode="append")
        shop.date_commit("orders", number)
    shop.clock.at += timedelta(minutes=5)
    return shop


@pytest.fixture
def busy_shop(seen_shop, tmp_path):
    """A copy of it, which a test may change."""
    shutil.copytree(seen_shop.root, tmp_path / "shop")
    return Shop(tmp_path / "shop", Clock(seen_shop.clock.at))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """Calls the application in process, as a browser that keeps its cookie."""

    def __init__(self, app: Any, token: str, tokens: TokenFile | None = None) -> None:
        self.app, self.token, self.tokens, self.cookie = app, token, tokens, ""
        self.client = "127.0.0.1"

    def call(
        self,
        path: str,
        method: str = "GET",
        body: bytes = b"",
        *,
        raw_path: str | None = None,
        is_whole: bool = True,
        **headers: Any,
    ) -> Answer:
        """Headers are given with underscores; None leaves one out. The rest of a body that is not whole never comes."""
        sent = {"host": HOST, **({"cookie": self.cookie} if self.cookie else {})}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        plain, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": plain,
            "raw_path": (raw_path or quote(plain)).encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), str(value).encode()) for name, value in sent.items() if value is not None],
            "client": (self.client, 50000),
            "server": ("127.0.0.1", 8741),
        }
        return asyncio.run(self._answer(scope, body, is_whole=is_whole))

    async def _answer(self, scope: dict[str, Any], body: bytes, *, is_whole: bool) -> Answer:
        messages, asked = [], []

        async def receive():
            if asked:
                await asyncio.sleep(3600)
            asked.append(True)
            return {"type": "http.request", "body": body, "more_body": not is_whole}

        async def send(message):
            messages.append(message)

        await self.app(scope, receive, send)
        start = messages[0]
        headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], headers, b"".join(one.get("body", b"") for one in messages[1:]))

    def sign_in(self) -> Browser:
        answer = self.call(f"/login?token={self.token}")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self


def browser_of(
    folder: Path, *shops: Shop, environ: Any = None, listen: str = HOST, root_url: str | None = None, **server: Any
) -> Browser:
    tokens = TokenFile(folder / "serve.json")
    clock = shops[0].clock
    token = tokens.create(clock.seconds(), replace=True)
    pipelines = served_pipelines(
        [one.root for one in shops], None, environ or {"HEADRACE_HOST": "here"}, clock.seconds, clock.seconds
    )
    reached = addresses(listen, root_url)
    return Browser(
        create_app(Server(reached, pipelines, tokens.read, clock.seconds, clock.seconds, **server)), token, tokens
    )


@pytest.fixture
def served(tmp_path_factory):
    """The application over shops, and a browser that is not signed in."""
    return partial(browser_of, tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="session")
def browser(seen_shop, tmp_path_factory):
    """A browser that is signed in, over a shop that no test changes."""
    return browser_of(tmp_path_factory.mktemp("serve"), seen_shop).sign_in()


def rendered(template: str, document: dict[str, Any], pictures: Any = None, role: Role | None = None) -> str:
    """The HTML of a page of the shop at noon, from its document alone; with the forms that a role sees."""
    keys = map("form-{}".format, itertools.count(1))
    principal = Principal("ann", role or Role.VIEWER, is_browser=True)
    offers = Offers("shop", principal, "t0ken", lambda: next(keys), "/p/shop/here", OPERATIONS) if role else None
    frame = Frame("shop", "shop", template.partition(".")[0], offers=offers)
    page = Page(template, "title", document, pictures or {})
    return Renderer(NOON.timestamp).html(page, frame).body.decode()


def plain(html: str) -> str:
    """The text of a page, as it is read."""
    return unescape(re.sub(r"<[^>]+>", "", html))


def stable(html: str, shop: Shop | None = None) -> str:
    """HTML without what differs from machine to machine, and from form to form."""
    html = re.sub(r'(name="(?:form_token|key)" value=)"[^"]+"', r'\1"..."', html)
    return re.sub(r"[ \t]+\n", "\n", html.replace(str(shop.root), "/srv/shop") if shop else html)


def assert_golden(name: str, html: str, shop: Shop | None = None) -> None:
    """The content of a page is that of a golden file, without what is around every page."""
    content = stable(html, shop).partition('<main id="content">')[2].partition("</main>")[0].strip() + "\n"
    file = GOLDEN / f"{name}.html"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        file.write_text(content)
    assert content == file.read_text()
