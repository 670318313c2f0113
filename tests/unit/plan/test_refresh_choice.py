"""The way to refresh a view that is estimated to cost less is chosen, from sizes and from past refreshes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.refresh import RefreshCost, RefreshMethod
from headrace.plan.refresh_choice import cheaper_method

MB = 1_000_000


@pytest.mark.parametrize(
    ("past", "size", "changed", "expected"),
    [
        pytest.param({}, 500 * MB, 5 * MB, "groups", id="a small part of much"),
        pytest.param({}, 500 * MB, 400 * MB, "full", id="most of it"),
        pytest.param({}, 500 * MB, 1000 * MB, "full", id="all of it, out and in"),
        pytest.param({}, 1 * MB, 1, "full", id="little: each way costs only its start"),
        pytest.param({"full": RefreshCost(0.8, 500 * MB)}, 500 * MB, 5 * MB, "full", id="fast in full"),
        pytest.param({"full": RefreshCost(60, 10 * MB)}, 10 * MB, MB // 10, "groups", id="slow in full"),
        pytest.param(
            {"full": RefreshCost(60, 10 * MB), "groups": RefreshCost(90, 10 * MB, 5 * MB)},
            *(10 * MB, 6 * MB, "full"),
            id="groups were slow",
        ),
    ],
)
def test_the_cheaper_way_is_chosen(past, size, changed, expected):
    assert cheaper_method(RefreshMethod.GROUPS, past, size, changed)[0] is RefreshMethod(expected)


@pytest.mark.parametrize(
    ("past", "changed", "expected"),
    [
        pytest.param({}, MB // 2, "groups", id="a small part: tables are not read"),
        pytest.param({}, 45 * MB, "full", id="most of it"),
        pytest.param(
            {"full": RefreshCost(9, 50 * MB), "groups": RefreshCost(20, 50 * MB, MB)},
            *(MB, "groups"),
            id="slow were only refreshes that read the tables",
        ),
        pytest.param(
            {"full": RefreshCost(2, 50 * MB), "groups from changes": RefreshCost(3, 50 * MB, MB)},
            *(MB, "full"),
            id="slower than in full",
        ),
    ],
)
def test_a_refresh_from_changes_has_costs_of_its_own(past, changed, expected):
    method, _ = cheaper_method(RefreshMethod.GROUPS, past, 50 * MB, changed, reads_all=False)

    assert method is RefreshMethod(expected)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0, 10**6), st.integers(0, 10**12))
def test_the_reason_names_both_estimates(size, changed, seconds, before):
    _, reason = cheaper_method(RefreshMethod.ROWS, {"full": RefreshCost(seconds, before)}, size, changed)

    assert "of the input changed: about" in reason
