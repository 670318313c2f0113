"""``dbutils.widgets``: given values, the environment, defaults, in this order."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.scripts.widgets import Widgets


def test_a_given_value_overrides_the_variable_and_both_override_the_default():
    widgets = Widgets({"day": "given"}, {"HEADRACE_WIDGET_DAY": "variable", "HEADRACE_WIDGET_LAND_CODE": "de"})
    for name in ("day", "land.code", "size"):
        widgets.text(name, "default")

    assert widgets.getAll() == {"day": "given", "land.code": "de", "size": "default"}


def test_a_widget_without_a_value_is_refused_with_a_hint():
    with pytest.raises(PipelineError) as raised:
        Widgets({}, {}).get("day")

    assert raised.value.code == "SCRIPT.NO_WIDGET"
    assert "HEADRACE_WIDGET_DAY" in raised.value.hint


def test_choices_are_enforced_for_multiselects_but_not_for_comboboxes():
    widgets = Widgets({"size": "huge", "days": "mon,sun"}, {})
    widgets.combobox("size", "small", ["small"])

    with pytest.raises(PipelineError) as raised:
        widgets.multiselect("days", "mon", ["mon", "tue"])

    assert widgets.get("size") == "huge"
    assert (raised.value.code, raised.value.params["value"]) == ("SCRIPT.WIDGET_CHOICE", "sun")


def test_a_removed_widget_has_no_default():
    widgets = Widgets({}, {})
    widgets.text("day", "monday")
    widgets.remove("day")

    assert (widgets.getAll(), widgets.getArgument("day", "none")) == ({}, "none")


def test_an_empty_widget_value_counts_as_a_value():
    assert Widgets({"day": ""}, {}).getArgument("day", "monday") == ""
