"""Other pages in the same browser can neither read nor do anything, and texts of others are shown and never run.

A browser decides what it sends and to whom it shows an answer: its word counts here, not that of a test's own requests.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.browser.conftest import RunningServer, appears
from tests.unit.serve.attacked_shop import ATTACKS, attacked_paths, attacked_shop
from tests.unit.serve.conftest import Clock, Shop, new_shop
from tests.unit.serve.test_writes import calls, queue_of

from headrace.events.types import FlowDefined, FlowStateChanged, UpdateStateChanged
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.long(
    guard=[
        "tests/unit/serve/test_security.py::test_names_and_texts_of_others_are_shown_and_never_run",
        "tests/unit/serve/test_forms.py::test_a_form_is_refused_unless_our_own_page_has_sent_it",
        "tests/unit/serve/test_security.py::test_another_host_name_gets_no_answer",
    ]
)
# Each tries something and says what it got; a browser lets it end in an error if it may not see the answer.
_TRIES = """\
const target = TARGET, page = target + "/p/shop", api = target + "/api/v1/pipelines/shop";
const got = (what) => what === undefined || what === "" ? "something" : String(what);
const loaded = (name, attributes) => new Promise((resolve, reject) => {
  const one = Object.assign(document.createElement(name), attributes);
  one.onload = () => resolve(one);
  one.onerror = () => reject(new Error("not loaded"));
  document.body.append(one);
});
const sent = (action, enctype, fields) => new Promise((resolve) => {
  const frame = document.createElement("iframe"), form = document.createElement("form");
  frame.name = "frame" + Math.random();
  document.body.append(frame, form);
  Object.assign(form, {method: "post", action, enctype, target: frame.name});
  for (const [name, value] of Object.entries(fields)) {
    form.append(Object.assign(document.createElement("input"), {type: "hidden", name, value}));
  }
  frame.onload = () => resolve(frame);
  form.submit();
}).then((frame) => frame.contentDocument ? null : Promise.reject(new Error("not ours to read")));
const json = {method: "POST", credentials: "include", body: '{"refresh": []}'};
const open = window.open(page);
const tries = {
  "read": () => fetch(page + ".json", {credentials: "include"}).then((answer) => answer.text()),
  "read unseen": () => fetch(page, {credentials: "include", mode: "no-cors"}).then((answer) => answer.type),
  "write": () => fetch(api + "/updates", {...json, headers: {"Content-Type": "application/json"}}),
  "write unseen": () => fetch(api + "/updates", {...json, mode: "no-cors"}),
  "write as a beacon": () => Promise.reject(new Error(navigator.sendBeacon(api + "/updates", json.body))),
  "a form": () => sent(page + "/forms/start_update", "application/x-www-form-urlencoded", {form_token: "x", key: "k"}),
  "a form as JSON": () => sent(api + "/updates", "text/plain", {'{"refresh": [], "x": "': '"}'}),
  "events": () => new Promise((resolve, reject) => {
    const source = new EventSource(api + "/events", {withCredentials: true});
    source.onopen = source.onmessage = resolve;
    source.onerror = () => { source.close(); reject(new Error("refused")); };
  }),
  "a socket": () => new Promise((resolve, reject) => {
    const socket = new WebSocket(api.replace("http", "ws") + "/events");
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error("refused"));
  }),
  "a picture": () => loaded("img", {src: target + "/static/mark.svg"}),
  "a script": () => loaded("script", {src: target + "/static/live.js"}),
  "JSON as a script": () => loaded("script", {src: page + ".json"}),
  "a style": () => loaded("link", {rel: "stylesheet", href: target + "/static/site.css"}),
  "a frame": () => loaded("iframe", {src: page}).then((frame) =>
    frame.contentDocument ? frame.contentDocument.body.innerText : Promise.reject(new Error("not ours to read"))),
  "a window": async () => {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return open.document.body.innerText;
  },
};
window.results = Promise.all(Object.entries(tries).map(async ([name, attempt]) => {
  try {
    return [name, got(await attempt())];
  } catch (error) {
    return [name, "refused"];
  }
})).then(Object.fromEntries);
"""
# What a text of others would leave in a page if it were taken for a part of it.
_TAKEN_FOR_CODE = """() => [...document.querySelectorAll(
  "script:not([src^='/static/']), iframe, object, embed, base, img[src='x'], [onerror], [onload], [href^='javascript:']"
)].map((one) => one.outerHTML)"""
# As their name says where they come from: another site, another port of this one, and another name of this machine.
_NAMES = ("evil.example", "127.0.0.1", "localhost")


@contextmanager
def site_of(html: str) -> Iterator[int]:
    """A site of others on this machine, which has one page; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def guarded(example, tmp_path):
    """A server that takes requests; nothing that it would run was called yet."""
    shutil.copytree(example.root, tmp_path / "shop")
    shop = Shop(tmp_path / "shop", Clock(example.clock.at))
    with queue_of(shop) as queue, RunningServer(shop, tmp_path, queues={"shop": queue}) as server:
        yield server


@pytest.mark.parametrize("name", _NAMES)
def test_a_page_of_others_gets_nothing_and_starts_nothing(window, guarded, name):
    visitor = window(guarded)
    with site_of(f"<!doctype html><body><script>{_TRIES.replace('TARGET', json.dumps(guarded.url))}</script>") as port:
        visitor.page.goto(f"http://{name}:{port}/")
        found = visitor.page.evaluate("window.results")

    assert len(found) == 15
    assert {attempt: result for attempt, result in found.items() if result != "refused"} == {}
    # The window that it has opened is what the person sees, who may follow a link.
    assert {status for method, _, status in visitor.answers if method == "POST"} == {403}
    assert calls(guarded.shop) == []
    assert visitor.visit("/p/shop") == 200


def test_a_name_that_is_given_the_address_of_the_server_shows_nothing(window, guarded):
    visitor = window(guarded)
    port = guarded.url.rpartition(":")[2]
    rebound = f"http://rebound.example:{port}"

    for path in ("/p/shop", "/p/shop.json", f"/login?token={guarded.token()}", "/static/site.css"):
        answer = visitor.page.goto(rebound + path)
        assert (answer.status, "orders" in answer.text()) == (421, False), path
    assert visitor.page.context.cookies(rebound) == []


@pytest.fixture
def attacked_server(tmp_path):
    (tmp_path / "shop").mkdir()
    with RunningServer(attacked_shop(new_shop(tmp_path / "shop")), tmp_path) as server:
        yield server


def test_no_text_of_others_runs_or_becomes_a_part_of_a_page(window, attacked_server):
    visitor = window(attacked_server)
    page, dialogs = visitor.page, []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    visitor.visit("/")
    slug = page.locator("a[href^='/p/']").first.get_attribute("href").removeprefix("/p/")

    taken = {}
    for path in attacked_paths(slug):
        visitor.visit(path)
        if parts := page.evaluate(_TAKEN_FOR_CODE):
            taken[path] = parts

    # What a live page takes in later is no exception.
    visitor.visit(f"/p/{slug}")
    name = f"live {ATTACKS[1]}"
    error = {"code": name, "message": name}
    shown = page.locator("#attention").get_by_text(name)
    for number in range(30):
        attacked_server.shop.clock.at += timedelta(minutes=1)
        failed = FlowStateChanged(name, name, FlowState.FAILED, attempt=1, error=error)
        attacked_server.shop.update(
            f"v{number}", FlowDefined(name, name), failed, UpdateStateChanged(UpdateState.FAILED)
        )
        if appears(shown):
            break
    assert shown.count() > 0
    assert (taken, page.evaluate(_TAKEN_FOR_CODE), dialogs) == ({}, [], [])
    assert [text for text in visitor.complaints if "404" not in text] == []
    assert [url for url in visitor.requests if not url.startswith(f"{visitor.url}/")] == []
