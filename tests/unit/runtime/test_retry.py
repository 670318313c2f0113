"""Which failures are tried again, and when."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.runtime.ports import Failed
from headrace.runtime.retry import LONGEST_DELAY_S, delay_s, retryable

ERROR = PipelineError("GRAPH.EMPTY")


@pytest.mark.parametrize(
    ("condition", "sql_state", "transient", "again"),
    [
        ("DELTA_CONCURRENT_APPEND", "2D521", False, True),
        ("CDC.TARGET_CHANGED", None, False, True),
        ("DELTA_METADATA_CHANGED", None, False, True),
        ("CONCURRENT_STREAM_LOG_UPDATE", "40000", False, True),
        ("CAST_INVALID_INPUT", "22018", False, False),
        ("DIVIDE_BY_ZERO", "22012", True, False),
        ("EXPECTATION.FAILED", None, True, False),
        ("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "XXKST", True, False),
        ("UNSUPPORTED_FEATURE", "0A000", False, False),
        ("PATH_NOT_FOUND", "42K03", True, False),
        ("FLOW.USER_CODE", "39000", True, False),
        ("SOMETHING_ELSE", "58030", False, True),
        (None, None, True, True),
        (None, None, False, False),
    ],
)
def test_transient_failures_are_retried_and_permanent_ones_are_not(condition, sql_state, transient, again):
    assert retryable(Failed("f", ERROR, condition, sql_state, transient)) is again


def test_the_retry_delay_doubles_up_to_a_maximum():
    assert [delay_s(attempt) for attempt in (1, 2, 3, 6)] == [1, 2, 4, 32]
    assert {delay_s(attempt) for attempt in (7, 50, 5000)} == {LONGEST_DELAY_S}
