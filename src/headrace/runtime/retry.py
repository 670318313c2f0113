"""Whether and when a failed flow is tried again: decided here alone, by error condition (D17)."""

from __future__ import annotations

from headrace.errors import conditions, spark_condition
from headrace.runtime.ports import Failed

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
# More than enough for the longest delay; a flow may be tried again for months.
_DOUBLINGS = 16

# SQLSTATE classes (ISO 9075 and Spark's own) whose errors come back on every try: data (22), constraint (23),
# syntax and access (42), unsupported feature (0A), external routine, that is user code (38, 39).
_LASTING_CLASSES = frozenset({"0A", "21", "22", "23", "38", "39", "42"})


def retryable(failure: Failed) -> bool:
    """True when the same work may succeed later without anybody changing anything."""
    ours = conditions().get(failure.condition or "")
    said = spark_condition(failure.condition).retry if ours is None else ours.retry
    if said is not None:
        return said
    if failure.sql_state is not None:
        return failure.sql_state[:2] not in _LASTING_CLASSES
    return failure.transient


def delay_s(attempt: int) -> float:
    """How long to wait after the given attempt failed (counted from 1): doubling, with an upper bound."""
    return float(min(FIRST_DELAY_S * 2 ** min(attempt - 1, _DOUBLINGS), LONGEST_DELAY_S))
