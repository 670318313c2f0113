"""Expectations: named predicates on the rows of a dataset, with an action for rows that violate them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.model.location import Location


class Action(str, Enum):
    """What happens if a row violates an expectation. From mild to strict; a later one takes precedence."""

    WARN = "warn"
    DROP = "drop"
    QUARANTINE = "quarantine"
    FAIL = "fail"

    @property
    def keeps_row(self) -> bool:
        """True if the row is still written to the target."""
        return self is Action.WARN


@dataclass(frozen=True)
class Expectation:
    """A predicate that each row should satisfy; NULL and errors count as violations.

    ``predicate`` is SQL text, a Column (opaque here, because this layer does not import Spark), or a table rule
    (``model.table_rules``).
    """

    name: str
    action: Action
    predicate: Any
    location: Location

    @property
    def text(self) -> str:
        """The predicate as text, for messages."""
        return self.predicate if isinstance(self.predicate, str) else str(self.predicate)


@dataclass(frozen=True)
class ExpectationCount:
    """How many rows of a batch (or an update) passed and failed one expectation."""

    name: str
    action: Action
    passed: int
    failed: int

    def plus(self, other: ExpectationCount) -> ExpectationCount:
        """The sum of both counts of the same expectation."""
        return ExpectationCount(self.name, self.action, self.passed + other.passed, self.failed + other.failed)

    def to_json(self) -> dict[str, Any]:
        """The count as in the contract's ``expectations`` array."""
        return {"name": self.name, "action": self.action.value, "passed": self.passed, "failed": self.failed}
