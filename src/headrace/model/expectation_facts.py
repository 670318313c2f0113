"""What an expectation is about: a class of tests that other systems know, and the column that it tests."""

from __future__ import annotations

from dataclasses import dataclass

NOT_NULL, UNIQUE, ROW_COUNT, FRESHNESS, CUSTOM = "not_null", "unique", "row_count", "freshness", "custom_sql"


@dataclass(frozen=True)
class ExpectationFacts:
    """The facts of the expectation with a name; *column* is None if it tests several ones, or if that is unknown."""

    name: str
    assertion: str = CUSTOM
    column: str | None = None
