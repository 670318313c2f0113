"""A question about the state of a flow, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.model.rows import Rows

DEFAULT_ROWS = 20


class Side(str, Enum):
    """A side of a stream-stream join."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class StateRequest:
    """What to show of a flow's state.

    Attributes:
        name: of the flow, or of a dataset with one flow.
        operator: Spark's number of the stateful operator; None if the flow has only one.
        rows: the maximum number of rows.
        keys: conditions on the key, each as ``COLUMN=VALUE``.
        side: the side of a stream-stream join; None for the left one.
        variable: the state variable of a ``transformWithState``; None if it has only one.
        metadata: show the operators and stores instead of rows.
    """

    name: str
    operator: int | None = None
    rows: int = DEFAULT_ROWS
    keys: tuple[str, ...] = ()
    side: Side | None = None
    variable: str | None = None
    metadata: bool = False


@dataclass(frozen=True)
class StateRows:
    """The state of a flow after a batch.

    Attributes:
        flow: the flow.
        batch: the completed batch.
        title: which part of the state this is.
        rows: the rows.
        has_more: whether the state has more rows than these.
    """

    flow: str
    batch: int
    title: str
    rows: Rows
    has_more: bool = False

    def to_json(self) -> dict[str, Any]:
        """The state for programs."""
        return {
            "flow": self.flow,
            "batch": self.batch,
            "part": self.title,
            "rows": self.rows.to_json(),
            "has_more": self.has_more,
        }
