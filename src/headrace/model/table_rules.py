"""Table rules: expectations that need more than one row.

A table rule takes the place of the predicate of an expectation, with the same actions; ``str()`` is its text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.model.names import QualifiedName


@dataclass(frozen=True)
class Unique:
    """No row in the table, or earlier in the batch, has the same values in these columns.

    A row with a NULL among them equals no other row, as in SQL; it violates the rule if they are *required*.
    """

    columns: tuple[str, ...]
    required: bool = False

    def __str__(self) -> str:
        return f"{'primary_key' if self.required else 'unique'}({', '.join(self.columns)})"


@dataclass(frozen=True)
class ForeignKey:
    """A row of another table has the values of these columns; a row with a NULL among them passes."""

    columns: tuple[str, ...]
    dataset: QualifiedName
    referenced: tuple[str, ...]

    def __str__(self) -> str:
        columns, referenced = ", ".join(self.columns), ", ".join(self.referenced)
        return f"foreign_key({columns}) references {self.dataset}({referenced})"


@dataclass(frozen=True)
class OnTime:
    """A row is less than ``within_s`` seconds behind the newest row of earlier batches; NULL is late.

    It is also at most ``ahead_s`` seconds ahead of the clock, unless None.
    """

    column: str
    within_s: float
    ahead_s: float | None = None

    def __str__(self) -> str:
        ahead = "" if self.ahead_s is None else f", ahead {self.ahead_s!r} s"
        return f"on_time({self.column}) within {self.within_s!r} s{ahead}"


@dataclass(frozen=True)
class RowCount:
    """The table has at least and at most so many rows after a batch; no single row violates the rule."""

    at_least: int | None = None
    at_most: int | None = None

    def holds(self, rows: int) -> bool:
        """True if a table with so many rows satisfies the rule."""
        return (self.at_least is None or rows >= self.at_least) and (self.at_most is None or rows <= self.at_most)

    def __str__(self) -> str:
        least = "0" if self.at_least is None else f"{self.at_least:,}"
        return f"row_count {least} or more" if self.at_most is None else f"row_count {least} to {self.at_most:,}"


@dataclass(frozen=True)
class Fresh:
    """The newest row of the table is at most so many seconds old at the end of an update.

    It is also at most so many seconds ahead of the clock.
    """

    column: str
    within_s: float

    def __str__(self) -> str:
        return f"fresh({self.column}) within {self.within_s!r} s"


# Rules that each row passes or fails.
RowRule: TypeAlias = Unique | ForeignKey | OnTime
ROW_RULES = (Unique, ForeignKey, OnTime)
# Rules that only the table as a whole passes or fails.
WHOLE_TABLE_RULES = (RowCount, Fresh)
TABLE_RULES = (*ROW_RULES, *WHOLE_TABLE_RULES)


def columns_of(rule: RowRule | Fresh) -> tuple[str, ...]:
    """The columns of the table that a rule uses."""
    return (rule.column,) if isinstance(rule, (OnTime, Fresh)) else rule.columns
