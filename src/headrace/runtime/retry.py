"""Whether and when a failed flow is tried again: decided here alone, by error condition (D17)."""

from __future__ import annotations

from headrace.runtime.ports import Failed

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
# More than enough for the longest delay; a flow may be tried again for months.
_DOUBLINGS = 16

# SQLSTATE classes (ISO 9075 and Spark's own) whose errors come back on every try: data (22), constraint (23),
# syntax and access (42), unsupported feature (0A), external routine, that is user code (38, 39).
_LASTING_CLASSES = frozenset({"0A", "21", "22", "23", "38", "39", "42"})

# Conditions that pass by themselves although their class says otherwise, or that have no SQLSTATE.
_PASSING_PREFIXES = (
    "CDC.TARGET_CHANGED",
    "CONCURRENT_STREAM_LOG_UPDATE",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "EVENTS.NOT_WRITTEN",
    "STORAGE.TABLE_UNREADABLE",
)

# Conditions of lasting errors whose class is not among the lasting ones.
_LASTING_PREFIXES = (
    "CANNOT_LOAD_STATE_STORE",
    "CAST_",
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    "DELTA_SOURCE_IGNORE_DELETE",
    "DELTA_STREAMING",
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    "EXPECTATION.",
    "STATE_STORE_",
    "STREAMING_STATEFUL_OPERATOR",
    "USER_RAISED_EXCEPTION",
)


def retryable(failure: Failed) -> bool:
    """True when the same work may succeed later without anybody changing anything."""
    condition = failure.condition or ""
    if condition.startswith(_PASSING_PREFIXES):
        return True
    if condition.startswith(_LASTING_PREFIXES):
        return False
    if failure.sql_state is not None:
        return failure.sql_state[:2] not in _LASTING_CLASSES
    return failure.transient


def delay_s(attempt: int) -> float:
    """How long to wait after the given attempt failed (counted from 1): doubling, with an upper bound."""
    return float(min(FIRST_DELAY_S * 2 ** min(attempt - 1, _DOUBLINGS), LONGEST_DELAY_S))
