"""Keys of flows among Spark's settings."""

from __future__ import annotations

import pytest

from headrace.model.flow_confs import wrong_flow_confs
from headrace.model.refresh import AUTO_REFRESH_KEY
from headrace.model.small_batches import SMALL_BATCH_ROWS_KEY, small_batch_rows
from headrace.model.static_inputs import STATIC_INPUTS_KEY


@pytest.mark.parametrize(("text", "rows"), [(None, 10_000), ("0", 0), (" 20_000 ", 20_000), ("100000", 100_000)])
def test_small_batches_have_at_most_so_many_rows(text, rows):
    assert small_batch_rows(text) == rows


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "100001", "²"])
def test_all_invalid_keys_are_found(text):
    wrong = wrong_flow_confs({STATIC_INPUTS_KEY: "never", SMALL_BATCH_ROWS_KEY: text, AUTO_REFRESH_KEY: "groups"})

    assert [(one.key, one.code) for one in wrong] == [
        (STATIC_INPUTS_KEY, "FLOW.STATIC_INPUTS"),
        (SMALL_BATCH_ROWS_KEY, "FLOW.SMALL_BATCHES"),
        (AUTO_REFRESH_KEY, "FLOW.AUTO_REFRESH"),
    ]
