"""What people do on the pages, in a browser: look for a cause, go by keyboard, and watch an update."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest
from tests.browser.conftest import RunningServer, appears
from tests.unit.serve.conftest import Clock, Shop, batch

from headrace.events.types import UpdateStateChanged
from headrace.model.outcome import UpdateState
from headrace.serve.roles import Role

pytestmark = pytest.mark.long(
    guard=[
        "tests/unit/serve/test_pages.py::test_the_navigation_marks_the_page_that_is_shown_and_has_a_letter_for_each",
        "tests/unit/serve/test_pages.py::test_what_needs_attention_is_a_sentence_with_its_cause_and_the_next_command",
        "tests/unit/serve/test_live_events.py::test_all_browsers_get_new_events_in_order_from_one_reader",
        "tests/unit/serve/test_security.py::test_without_a_token_only_the_page_for_signing_in_is_shown",
    ]
)
# What has the focus: its name, and how wide the line is that shows it.
_FOCUSED = """() => {
  const at = document.activeElement, box = at.querySelector('.box');
  const line = box ? getComputedStyle(box).strokeWidth : getComputedStyle(at).outlineWidth;
  return {name: (at.querySelector('title') || at).textContent.trim(), line};
}"""


@pytest.fixture
def own_server(example, tmp_path):
    """A server over a copy of the example, whose event log a test may write."""
    shutil.copytree(example.root, tmp_path / "shop")
    with RunningServer(Shop(tmp_path / "shop", Clock(example.clock.at)), tmp_path) as server:
        yield server


def test_somebody_signs_in_and_is_led_from_what_is_wrong_to_what_to_do(window, example_server):
    visitor = window()
    page = visitor.page
    page.context.clear_cookies()
    visitor.visit("/p/shop?from=mail")
    page.get_by_label("Token").fill(example_server.token())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/p/shop?from=mail")

    attention = page.locator("#attention li").first
    assert 'Flow "revenue_by_country" failed.' in attention.inner_text()
    assert "What to do: Correct the query." in attention.inner_text()
    attention.get_by_role("link", name="revenue_by_country").first.click()
    error = page.locator(".error")
    assert "transformations/gold.py:12" in error.inner_text()
    assert "What to do: Correct the query." in error.inner_text()
    error.get_by_role("link", name="FLOW.FAILED").click()

    assert page.get_by_role("heading", level=1).inner_text() == "FLOW.FAILED"
    assert "What to do" in page.locator("main").inner_text()


def test_keys_open_pages_and_the_search_finds_codes_by_their_words(window):
    visitor = window()
    page = visitor.page
    visitor.visit("/p/shop")

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    assert dialog.is_visible()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.keyboard.press("g")
    page.keyboard.press("u")
    page.wait_for_url("**/p/shop/updates")
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_url("**/help")
    page.keyboard.press("/")
    # What is typed into the field is no key of the page.
    page.keyboard.type("gu?kafka")
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    page.wait_for_url("**/help?q=kafka")

    codes = page.locator("dl.codes dt").all_inner_texts()
    assert codes
    assert any("KAFKA" in code for code in codes)
    assert len(codes) < 60


def test_the_graph_is_walked_by_keyboard_from_sources_to_sinks(window):
    visitor = window()
    page = visitor.page
    visitor.visit("/p/shop/graph")
    page.keyboard.press("Tab")
    assert page.evaluate(_FOCUSED)["name"] == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")

    walked = []
    for _ in range(8):
        page.keyboard.press("Tab")
        walked.append(page.evaluate(_FOCUSED))
    names = [one["name"].partition(":")[0] for one in walked]
    assert names.index("orders") < names.index("clean_orders") < names.index("revenue_by_country")
    assert {one["line"] for one in walked} == {"2px"}
    for _ in range(len(names) - 1 - names.index("clean_orders")):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/p/shop/d/clean_orders")
    page.get_by_role("link", name="Graph around it").press("Enter")
    page.wait_for_url("**/graph?focus=clean_orders")

    titles = page.locator("svg.graph a title").all_text_contents()
    assert len(titles) == 6
    assert "orders_out" in "".join(titles)


def test_a_new_update_appears_without_a_reload_and_what_is_used_stays(window, own_server):
    visitor = window(own_server)
    page = visitor.page
    with page.expect_request("**/events"):
        visitor.visit("/p/shop")
    page.evaluate("window.isTheSame = true")
    link = page.locator("#attention a").first
    link.focus()
    before = page.locator("#attention").inner_text()

    shop = own_server.shop
    shown = page.locator("#updates").get_by_text("dddd4444")
    # The reader of the log hands out what is written after its first look at it.
    for number in range(30):
        shop.clock.at += timedelta(minutes=1)
        state = UpdateStateChanged(UpdateState.COMPLETED)
        shop.update("dddd4444-0000" if number == 0 else f"{number:08}-more", batch(50 + number), state)
        if appears(shown):
            break
    assert shown.count() > 0
    assert page.evaluate("window.isTheSame")
    assert page.locator("#lease").inner_text().strip().startswith("COMPLETED")
    # It has the focus.
    assert page.locator("#attention").inner_text() == before
    assert visitor.complaints == []


SECTIONS = ("", "/graph", "/updates", "/alerts", "/quarantine", "/changes", "/schedules", "/savepoints", "/maintenance")


def buttons(visitor):
    """The buttons of all sections: whether each can be used, by its name."""
    found = {}
    for path in SECTIONS:
        visitor.visit(f"/p/shop{path}")
        for button in visitor.page.locator("button:visible").all():
            found[button.inner_text()] = button.is_enabled()
    return found


def test_a_server_that_only_reads_has_no_button_that_changes_something(window, example, tmp_path):
    with RunningServer(example, tmp_path, is_read_only=True) as server:
        found = buttons(window(server))

    assert found == {"Sign out": True}


def test_who_may_only_look_sees_buttons_that_say_which_role_they_need(window):
    visitor = window(role=Role.VIEWER)

    found = buttons(visitor)
    visitor.visit("/p/shop")

    assert [name for name, is_enabled in found.items() if is_enabled] == ["Sign out"]
    assert "Needs the role operator; yours is viewer." in visitor.page.locator("main").inner_text()
    assert buttons(window(role=Role.ADMIN))["Run"]
