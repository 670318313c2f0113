"""Rules that a row cannot tell by itself: what each looks at beside the row.

They stand where the predicate of an expectation stands, with the same actions; ``str()`` is how a reader would write
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.model.names import QualifiedName


@dataclass(frozen=True)
class Unique:
    """No other row has the same values in these columns, in the table or before it in its batch.

    A row with a NULL among them is like no other, as in SQL; it breaks the rule where they are *required*.
    """

    columns: tuple[str, ...]
    required: bool = False

    def __str__(self) -> str:
        return f"{'primary_key' if self.required else 'unique'}({', '.join(self.columns)})"


@dataclass(frozen=True)
class ForeignKey:
    """The values of these columns are those of a row of another table; a row with a NULL among them refers to none."""

    columns: tuple[str, ...]
    dataset: QualifiedName
    referenced: tuple[str, ...]

    def __str__(self) -> str:
        columns, referenced = ", ".join(self.columns), ", ".join(self.referenced)
        return f"foreign_key({columns}) references {self.dataset}({referenced})"


@dataclass(frozen=True)
class OnTime:
    """A row is less than so many seconds behind the newest one of the batches before its own; NULL is late.

    Nor is it further ahead of the clock than ``ahead_s``, where that is said.
    """

    column: str
    within_s: float
    ahead_s: float | None = None

    def __str__(self) -> str:
        ahead = "" if self.ahead_s is None else f", ahead {self.ahead_s!r} s"
        return f"on_time({self.column}) within {self.within_s!r} s{ahead}"


@dataclass(frozen=True)
class RowCount:
    """The table has at least and at most so many rows once a batch is written; no row of the batch breaks it alone."""

    at_least: int | None = None
    at_most: int | None = None

    def holds(self, rows: int) -> bool:
        """Whether a table of so many rows keeps the rule."""
        return (self.at_least is None or rows >= self.at_least) and (self.at_most is None or rows <= self.at_most)

    def __str__(self) -> str:
        least = "0" if self.at_least is None else f"{self.at_least:,}"
        return f"row_count {least} or more" if self.at_most is None else f"row_count {least} to {self.at_most:,}"


@dataclass(frozen=True)
class Fresh:
    """The newest row of the table is at most so many seconds old when an update has brought what there was.

    Nor is it further ahead of the clock than that.
    """

    column: str
    within_s: float

    def __str__(self) -> str:
        return f"fresh({self.column}) within {self.within_s!r} s"


# What is told of each row, and what of the table alone.
RowRule: TypeAlias = Unique | ForeignKey | OnTime
ROW_RULES = (Unique, ForeignKey, OnTime)
# What is told of no row.
WHOLE_RULES = (RowCount, Fresh)
TABLE_RULES = (*ROW_RULES, *WHOLE_RULES)


def columns_of(rule: RowRule | Fresh) -> tuple[str, ...]:
    """The columns of the table's own rows that a rule speaks of."""
    return (rule.column,) if isinstance(rule, (OnTime, Fresh)) else rule.columns
