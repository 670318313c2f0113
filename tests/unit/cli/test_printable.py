"""External text on a terminal: no control character gets there, and JSON stays the same value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.printable import json_text, printable

VALUES = st.dictionaries(st.text(max_size=5), st.text(st.characters(), max_size=8), max_size=3)


@given(VALUES)
def test_json_is_the_same_value_and_has_no_control_characters(value):
    assert json_text(value).isprintable()
    assert json.loads(json_text(value)) == value


@pytest.mark.parametrize("text", ["\x9b31m", "\x85", "\u2028", "\u202e", "\U000e0001", "\ud800"])
def test_invisible_characters_are_escaped(text):
    assert printable(text).isprintable()
    assert json_text(text).isascii()


def test_letters_stay_as_they_are():
    assert json_text({"größe": "🚰"}) == '{"größe": "🚰"}'
