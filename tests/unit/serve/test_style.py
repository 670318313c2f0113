"""The style sheet has enough contrast in both schemes, and no template has what the policy of the pages refuses."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

CSS = files("headrace.serve").joinpath("static", "site.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in CSS.split("@media (prefers-color-scheme: dark)")
)
ON_SURFACES = ("text", "muted", "accent", "ok", "warn", "bad", "unknown")
PAIRS = (
    *((name, ground) for name in ON_SURFACES for ground in ("surface", "ground")),
    *((name, ground) for name in ("text", "muted") for ground in ("sunken", "bad-soft", "warn-soft")),
    *(("surface", "accent"), ("accent", "bad-soft"), ("bad", "bad-soft"), ("warn", "warn-soft"), ("ok", "ok-soft")),
)


def luminance(colour):
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, {**LIGHT, **DARK}], ids=["light", "dark"])
def test_texts_have_the_contrast_that_people_need(scheme):
    poor = {
        pair: round(contrast(scheme[pair[0]], scheme[pair[1]]), 2)
        for pair in PAIRS
        if contrast(scheme[pair[0]], scheme[pair[1]]) < 4.5
    }

    assert poor == {}


def test_no_template_has_inline_style_or_script_or_loads_from_elsewhere():
    folder = files("headrace.serve").joinpath("templates")
    texts = {file.name: file.read_text() for file in folder.iterdir()}

    # The policy of the pages would refuse them.
    forbidden = re.compile(r"<style|\sstyle=|\son\w+=|javascript:|https?://|<script(?![^>]*src=\"/static/)")
    assert {name: forbidden.findall(text) for name, text in texts.items() if forbidden.search(text)} == {}
    assert not re.search(r"url\(|@import|https?:", CSS)
    assert "|safe" not in "".join(texts.values())
