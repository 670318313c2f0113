"""Classes of changes to a deployed pipeline, and which of them need an approval."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ChangeClass(str, Enum):
    """What a change does to what is deployed, worst first."""

    BLOCKED = "blocked"
    DESTRUCTIVE = "destructive"
    REBUILD = "rebuild"
    RESTART = "restart"
    REDELIVER = "redeliver"
    RECOMPUTE = "recompute"
    FORWARD_ONLY = "forward_only"
    WIDEN = "widen"
    ANNOTATE = "annotate"
    ADD = "add"
    RENAME = "rename"
    RETIRE = "retire"
    DATA = "data"

    @property
    def rank(self) -> int:
        """Its place in the order, 0 for the worst."""
        return tuple(ChangeClass).index(self)

    @property
    def concerns_readers(self) -> bool:
        """True if it can change what readers of the dataset see of rows that they have read."""
        return self.rank <= ChangeClass.FORWARD_ONLY.rank


class ApprovalMode(str, Enum):
    """What an update does whose plan has a change that needs an approval."""

    ALLOW = "allow"
    AWAIT = "await"
    REJECT = "reject"


DEFAULT_REQUIRED = (ChangeClass.DESTRUCTIVE, ChangeClass.REBUILD, ChangeClass.RESTART, ChangeClass.REDELIVER)


@dataclass(frozen=True)
class ApprovalPolicy:
    """Which changes need an approval.

    Attributes:
        required: the classes that need one.
        mode: what an update does without one.
        four_eyes: the approval of the person who made the plan does not count.
    """

    required: tuple[ChangeClass, ...] = DEFAULT_REQUIRED
    mode: ApprovalMode = ApprovalMode.ALLOW
    four_eyes: bool = False
