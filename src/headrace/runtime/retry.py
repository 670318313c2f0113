"""Which errors of a flow are retried, and after how long: decided here alone, by error condition (D17)."""

from __future__ import annotations

from headrace.errors import conditions, spark_condition
from headrace.runtime.ports import Failed
from headrace.sinks.retrying import backoff_s

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0

# SQLSTATE classes (ISO 9075 and Spark's own) of permanent errors: data (22), constraint (23),
# syntax and access (42), unsupported feature (0A), external routine, that is user code (38, 39).
_PERMANENT_CLASSES = frozenset({"0A", "21", "22", "23", "38", "39", "42"})


def retryable(failure: Failed) -> bool:
    """True when the same work may succeed later without any change."""
    ours = conditions().get(failure.condition or "")
    decision = spark_condition(failure.condition).retry if ours is None else ours.retry
    if decision is not None:
        return decision
    if failure.sql_state is not None:
        return failure.sql_state[:2] not in _PERMANENT_CLASSES
    return failure.transient


def delay_s(attempt: int) -> float:
    """How long to wait after a failed attempt, counted from 1: exponential backoff with an upper bound."""
    return backoff_s(attempt, FIRST_DELAY_S, LONGEST_DELAY_S)
