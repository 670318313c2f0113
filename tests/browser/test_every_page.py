"""Every page in a browser: for people who see little or use the keyboard, without scripts, and without other hosts."""

from __future__ import annotations

import re

import pytest
from tests.browser.conftest import NARROW, WIDE
from tests.browser.example_shop import PAGES

pytestmark = pytest.mark.long(
    guard=[
        "tests/unit/serve/test_style.py::test_texts_have_the_contrast_that_people_need",
        "tests/unit/serve/test_style.py::test_no_template_has_inline_style_or_script_or_loads_from_elsewhere",
    ]
)
# With the rules of axe-core to try; all of them if none is named. Between light and dark, only colours differ.
LOOKS = (
    (WIDE, "light", ()),
    (WIDE, "dark", ("color-contrast",)),
    (NARROW, "dark", ()),
    (NARROW, "light", ("color-contrast",)),
)
# What a thumb has to hit: the lowest of the sections and buttons, in pixels.
LOWEST = """() => Math.min(...[...document.querySelectorAll("nav a, button, a.button")]
  .map((one) => one.getBoundingClientRect().height).filter((height) => height))"""
FINGER_PX = 44


def text_of(page):
    """What is read in the content of a page; times that differ from one moment to the next are not in it."""
    return re.sub(r"\s+", " ", page.inner_text("main"))


@pytest.mark.parametrize("path", [pytest.param(page.path, id=page.name) for page in PAGES])
def test_axe_finds_nothing_serious_in_any_size_and_scheme(window, path):
    visitor = window()
    visitor.visit(path)

    found = {}
    for size, scheme, rules in LOOKS:
        visitor.sized(size, scheme)
        found[f"{size[0]} {scheme}"] = visitor.axe(*rules)
        # Nothing but wide tables and pictures scrolls sideways, and they do so by themselves.
        assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), size
        if size == NARROW:
            assert visitor.page.evaluate(LOWEST) >= FINGER_PX

    assert found == {name: [] for name in found}


def test_the_page_to_sign_in_has_nothing_serious_either(window):
    visitor = window()
    visitor.page.context.clear_cookies()
    visitor.visit("/p/shop")

    assert visitor.page.url.startswith(f"{visitor.url}/login")
    assert visitor.axe() == []


def test_no_request_leaves_the_host_and_no_page_breaks_its_policy(window):
    visitor = window()

    statuses = {page.name: visitor.visit(page.path) for page in PAGES}

    assert statuses == {page.name: page.status for page in PAGES}
    assert [url for url in visitor.requests if not url.startswith(f"{visitor.url}/")] == []
    # Chromium says in the console that a page was not found.
    assert [text for text in visitor.complaints if "404" not in text] == []


def test_every_page_is_complete_without_javascript(window):
    without, visitor = window(java_script_enabled=False), window()

    differing = {}
    for page in PAGES:
        visitor.visit(page.path)
        without.visit(page.path)
        if text_of(without.page) != text_of(visitor.page):
            differing[page.name] = (text_of(without.page), text_of(visitor.page))

    assert differing == {}
    assert len(text_of(without.page)) > 20
