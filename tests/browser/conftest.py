"""Chromium over the real server, which serves the example pipeline at a fixed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import uvicorn
from tests.browser.chromium import running_chromium
from tests.browser.example_shop import example_shop
from tests.browser.parts import AXE, missing_parts
from tests.unit.project.test_requests import until
from tests.unit.serve.conftest import Shop
from tests.unit.serve.test_server import free_port

from headrace.serve.addresses import addresses
from headrace.serve.app import Server, create_app
from headrace.serve.pipelines import served_pipelines
from headrace.serve.roles import Role
from headrace.serve.server import server_config
from headrace.serve.tokens import TokenFile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

# The driver's own time limit; machines of tests may be slow.
TIMEOUT_MS = 180_000
WIDE, NARROW = (1280, 800), (390, 844)


class RunningServer:
    """The server in a thread of this process, with the time of the pipeline."""

    def __init__(self, shop: Shop, folder: Path, **server: Any) -> None:
        self.shop = shop
        self.url = f"http://127.0.0.1:{free_port()}"
        self._tokens = TokenFile(folder / "serve.json")
        self._numbers = count()
        reached = addresses(self.url.removeprefix("http://"))
        at = shop.clock.seconds
        pipelines = served_pipelines([shop.root], None, {"HEADRACE_HOST": "here"}, at, time.monotonic)
        self._server: uvicorn.Server
        application = create_app(
            Server(
                reached, pipelines, self._tokens.read, at, time.monotonic, lambda: self._server.should_exit, **server
            )
        )
        self._server = uvicorn.Server(server_config(application, reached))
        # Signals belong to the test.
        self._server.capture_signals = ExitStack
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def token(self, role: Role = Role.ADMIN) -> str:
        """A new token of a role."""
        return self._tokens.add(f"{role.value}-{next(self._numbers)}", role, self.shop.clock.seconds())

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()


@dataclass
class Visitor:
    """A window of the browser that is signed in, and what it noticed.

    Attributes:
        page: the window.
        url: of the server.
        requests: the URLs of everything that was asked for.
        answers: of all windows of the browser: the method, the URL, and the status.
        complaints: what the console shows as errors or warnings, such as what the policy of the pages refuses.
    """

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    answers: list[tuple[str, str, int]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def visit(self, path: str) -> int:
        """Open a page; its status."""
        answer = self.page.goto(self.url + path, wait_until="load")
        assert answer
        return answer.status

    def axe(self, *rules: str) -> list[str]:
        """What axe-core finds that is serious or critical, by all of its rules or by some."""
        # Evaluated by the debugger, whom the policy of the pages does not concern.
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        chosen = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
        # It asks for no file, such as style sheets, again.
        options = {"resultTypes": ["violations"], "preload": False, **chosen}
        found = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{violation['id']}: {node['target']} {node['failureSummary']}"
            for violation in found["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]

    def sized(self, size: tuple[int, int], scheme: str) -> None:
        """Change the size of the window, and between light and dark."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")


def appears(part: Locator, timeout_ms: float = 5_000) -> bool:
    """Whether a part of a page is shown within a time."""
    from playwright.sync_api import TimeoutError as NotShownError  # noqa: PLC0415 - `make test` runs without it

    try:
        part.first.wait_for(timeout=timeout_ms)
    except NotShownError:
        return False
    return True


Windows = Callable[..., "Visitor"]


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    """The example pipeline, which no test changes."""
    return example_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def example_server(example, tmp_path_factory):
    with RunningServer(example, tmp_path_factory.mktemp("serve")) as server:
        yield server


# Of a module: as long as the driver runs, no other test of the process can have an event loop.
@pytest.fixture(scope="module")
def chromium(tmp_path_factory) -> Iterator[Browser]:
    if missing := missing_parts():
        pytest.fail(f"{', '.join(missing)} missing; run `make test-servers`", pytrace=False)
    with running_chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@contextmanager
def opened(context: BrowserContext, server: RunningServer, token: str) -> Iterator[Visitor]:
    """A window of a context that has signed in."""
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    visitor = Visitor(page, server.url)
    page.on("request", lambda request: visitor.requests.append(request.url))
    context.on("response", lambda got: visitor.answers.append((got.request.method, got.url, got.status)))
    page.on("console", lambda said: visitor.complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
    visitor.visit(f"/login?token={token}")
    yield visitor
    context.close()


@pytest.fixture
def window(chromium, example_server) -> Iterator[Windows]:
    """Opens windows on the example pipeline, or on another server, as an admin or another role."""
    with ExitStack() as stack:

        def make(server: RunningServer = example_server, role: Role = Role.ADMIN, **context: Any) -> Visitor:
            size = {"width": WIDE[0], "height": WIDE[1]}
            made = chromium.new_context(**{"viewport": size, "reduced_motion": "reduce", **context})
            return stack.enter_context(opened(made, server, server.token(role)))

        yield make
