"""How a materialized view is refreshed: what its declaration asks for, what its query allows, what a refresh did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class RefreshPolicy(str, Enum):
    """What a declaration asks for; the values are those of ``refresh_policy`` in Python."""

    AUTO = "auto"
    INCREMENTAL = "incremental"
    INCREMENTAL_STRICT = "incremental_strict"
    FULL = "full"

    @property
    def in_sql(self) -> str:
        """The words after ``REFRESH POLICY``."""
        return self.value.replace("_", " ").upper()


# What the policy ``auto`` does; set on a flow or in the pipeline's configuration.
AUTO_REFRESH_KEY = "headrace.views.auto_refresh"


class AutoRefresh(str, Enum):
    """What the policy ``auto`` means."""

    FULL = "full"
    CHEAPER = "cheaper"


class InvalidAutoRefresh(ValueError):
    """An invalid value of the key; the text says why."""


def auto_refresh(text: str | None) -> AutoRefresh:
    """What the policy ``auto`` means; the default for None.

    Raises:
        InvalidAutoRefresh: the text is invalid.
    """
    try:
        return AutoRefresh.FULL if text is None else AutoRefresh(text.strip().casefold())
    except ValueError:
        raise InvalidAutoRefresh(f'"{text}" is neither full nor cheaper') from None


class RefreshMethod(str, Enum):
    """How much of a view a refresh computes."""

    FULL = "full"
    GROUPS = "groups"
    # Rows that changed, of a view without groups.
    ROWS = "incremental"


@dataclass(frozen=True)
class Refresh:
    """How a view was refreshed, and why in this way."""

    method: RefreshMethod
    reason: str

    @property
    def is_partial(self) -> bool:
        """True if rows that did not change were not computed."""
        return self.method is not RefreshMethod.FULL

    def to_json(self) -> dict[str, Any]:
        """The refresh as JSON."""
        return {"refresh": self.method.value, "refresh_reason": self.reason}


@dataclass(frozen=True)
class Obstacle:
    """Why a view is always computed in full.

    Attributes:
        operator: the part of the query, or of the declaration, that is in the way.
        reason: why it is.
        rewrite: what the reader can write instead; empty if nothing helps.
    """

    operator: str
    reason: str
    rewrite: str = ""

    def describe(self) -> str:
        """The obstacle in one line."""
        return f"{self.operator}: {self.reason}" + (f". {self.rewrite}" if self.rewrite else "")

    def to_json(self) -> dict[str, Any]:
        """The obstacle as JSON."""
        return {"operator": self.operator, "reason": self.reason, "rewrite": self.rewrite or None}


@dataclass(frozen=True)
class RefreshRule:
    """How a query can be refreshed.

    Attributes:
        method: how much of it has to be computed.
        keys: the columns of the view that hold the keys of its groups.
        obstacle: why it is always computed in full; None if it is not, or for a query that is no view's.
        merges: whether the rows of its groups follow from their stored rows and the changed rows, for most changes.
        unmerged: why they do not.
    """

    method: RefreshMethod = RefreshMethod.FULL
    keys: tuple[str, ...] = ()
    obstacle: Obstacle | None = None
    merges: bool = False
    unmerged: str = ""

    @property
    def is_known(self) -> bool:
        """False for a query that is no materialized view's."""
        return self.method is not RefreshMethod.FULL or self.obstacle is not None

    def describe(self) -> str:
        """The rule in one line."""
        if self.obstacle is not None:
            return f"no: {self.obstacle.describe()}"
        if self.method is RefreshMethod.ROWS:
            return "by rows: computes the rows that changed"
        if not self.keys:
            return "by groups: adds the changed rows to the totals"
        groups = f"the groups of {', '.join(self.keys)}"
        if self.merges:
            return f"by groups: adds the changed rows to {groups}"
        reason = f", because {self.unmerged}" if self.unmerged else ""
        return f"by groups: computes {groups} whose rows changed{reason}"

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON."""
        return {
            "method": self.method.value,
            "keys": list(self.keys),
            "merges": self.merges,
            "unmerged": self.unmerged or None,
            "obstacle": None if self.obstacle is None else self.obstacle.to_json(),
        }


@dataclass(frozen=True)
class RefreshCost:
    """What a refresh cost.

    Attributes:
        seconds: how long it took.
        input_bytes: the size of the tables that the view reads.
        changed_bytes: the size of the files that had changed; 0 for a full refresh.
    """

    seconds: float
    input_bytes: int
    changed_bytes: int = 0

    def to_json(self) -> list[float]:
        """The cost as JSON."""
        return [round(self.seconds, 3), self.input_bytes, self.changed_bytes]

    @classmethod
    def from_json(cls, raw: Any) -> RefreshCost:
        """The cost from JSON."""
        return cls(float(raw[0]), int(raw[1]), int(raw[2]))
