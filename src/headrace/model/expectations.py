"""Named predicates on the rows of a dataset, and what happens to a row that breaks one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.model.location import Location


class Action(str, Enum):
    """What a broken expectation does. Listed from the mildest; a later one takes precedence."""

    WARN = "warn"
    DROP = "drop"
    QUARANTINE = "quarantine"
    FAIL = "fail"

    @property
    def keeps_row(self) -> bool:
        """True when the row is still written to the target."""
        return self is Action.WARN


@dataclass(frozen=True)
class Expectation:
    """A predicate that each row should satisfy; NULL and an error count as not satisfied.

    ``predicate`` is SQL text, a Column (kept opaque here: this layer knows no Spark), or a rule that a row cannot tell
    by itself (``model.table_rules``).
    """

    name: str
    action: Action
    predicate: Any
    location: Location

    @property
    def text(self) -> str:
        """The predicate as a reader would write it."""
        return self.predicate if isinstance(self.predicate, str) else str(self.predicate)


@dataclass(frozen=True)
class ExpectationCount:
    """How many rows of a batch (or an update) passed and failed one expectation."""

    name: str
    action: Action
    passed: int
    failed: int

    def plus(self, other: ExpectationCount) -> ExpectationCount:
        """The same expectation over both batches."""
        return ExpectationCount(self.name, self.action, self.passed + other.passed, self.failed + other.failed)

    def to_json(self) -> dict[str, Any]:
        """The count as in the contract's ``expectations`` array."""
        return {"name": self.name, "action": self.action.value, "passed": self.passed, "failed": self.failed}
