"""A project that is being developed: the bar on each page, its own page, and browsers that learn of a check."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.serve.conftest import HOST, Browser

from headrace.project.development.board import DevBoard
from headrace.project.development.check import Check
from headrace.project.development.plan_lines import PlanLine
from headrace.serve.addresses import addresses
from headrace.serve.app import Server, create_app
from headrace.serve.live_events import LiveEvents
from headrace.serve.pipelines import served_pipelines
from headrace.serve.tokens import TokenFile

PROBLEM = {
    "code": "FILE.SYNTAX",
    "message": "the file <b>cannot</b> be read",
    "detail": None,
    "hint": "Close the bracket.",
    "location": {"file": "transformations/gold.py", "line": 12},
}
FIRST = Check((), (PlanLine("flow", "orders", "start", "it never ran"),), has_plan=True, duration_s=0.4)
SECOND = Check((), (PlanLine("flow", "orders", "up to date", "nothing new"),), has_plan=True, duration_s=0.5)


@pytest.fixture
def developed(busy_shop, tmp_path):
    """A browser that is signed in, and the board of the project that it looks at."""
    tokens, seconds = TokenFile(tmp_path / "serve.json"), busy_shop.clock.seconds
    token = tokens.create(seconds())
    pipelines = served_pipelines([busy_shop.root], None, {"HEADRACE_HOST": "here"}, seconds, seconds)
    board = pipelines["shop"].board = DevBoard()
    app = create_app(Server(addresses(HOST), pipelines, tokens.read, seconds, seconds))
    return Browser(app, token, tokens).sign_in(), board, pipelines["shop"]


def test_each_save_is_shown_on_its_page_and_in_the_bar_of_all_pages(developed):
    browser, board, _pipeline = developed
    starting = browser.call("/p/shop/dev").text
    board.show(board.state.begun(()).ended(FIRST, 1.0))
    board.show(board.state.begun(("gold.py",)).ended(SECOND, 2.0))
    changed, bar = browser.call("/p/shop/dev").text, browser.call("/p/shop/updates").text
    board.show(board.state.begun(("gold.py",)).ended(Check((PROBLEM,)), 3.0))
    broken, bar_of_broken = browser.call("/p/shop/dev").text, browser.call("/p/shop/updates").text

    assert "No plan yet" in starting
    assert "<del>- start        orders: it never ran</del>" in changed
    assert "<ins>+ up to date   orders: nothing new</ins>" in changed
    assert "1 flow up to date; 1 line of the plan changed" in bar
    assert ("transformations/gold.py:12" in broken, "Close the bracket." in broken, "<b>" in broken) == (
        True,
        True,
        False,
    )
    assert "FILE.SYNTAX" in broken
    assert "1 problem" in bar_of_broken
    assert browser.call("/p/shop/dev.json").json["phase"] == "broken"


def test_a_project_that_is_only_served_has_no_such_page(browser):
    assert browser.call("/p/shop/dev").status == 404
    assert 'id="dev-bar"' not in browser.call("/p/shop/updates").text


def test_browsers_that_listen_learn_of_a_check(developed):
    _browser, board, pipeline = developed
    live = LiveEvents(pipeline, bool, poll_s=0.01)

    async def first_message():
        listening = live.listen(None)
        await anext(listening)
        asking = asyncio.ensure_future(anext(listening))
        while not asking.done():
            board.show(board.state.begun(()))
            await asyncio.sleep(0.01)
        return asking.result()

    assert asyncio.run(first_message()) == "event: refresh\ndata: {}\n\n"
