"""What the laws of reading share: rows or errors of a reader, and plans that treat bad records differently."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.autoloader.reading.plan import MalformedRecord, UnknownFields

LAW = settings(max_examples=examples(60, 300), deadline=None)
PLANS = st.sampled_from(
    [
        {},
        {"rescued_column": "_rescued_data"},
        {"rescued_column": "_rescued_data", "evolves": True},
        {"rescued_column": "_rescued_data", "case_sensitive": False},
        {"rescued_column": "_rescued_data", "mode": "DROPMALFORMED"},
        {"mode": "FAILFAST"},
        {"corrupt_column": "_corrupt_record"},
        {"corrupt_column": "_corrupt_record", "rescued_column": "_rescued_data"},
    ]
)


def rows_or_error(batches):
    try:
        return [str(row) for batch in batches for row in batch.to_pylist()]
    except UnknownFields as error:
        return "unknown", error.names
    except MalformedRecord as error:
        return "malformed", str(error)
