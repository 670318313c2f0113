"""The status of a criterion, and the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(str, Enum):
    """Whether a criterion is met. Unknown is not met."""

    PASS = "pass"  # noqa: S105 - a word
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Evidence:
    """A status, what was seen, and what to do if the criterion is not met."""

    status: Status
    text: str
    next_step: str = ""


def met(text: str) -> Evidence:
    """Evidence that the criterion is met."""
    return Evidence(Status.PASS, text)


def missed(text: str, next_step: str) -> Evidence:
    """Evidence that it is not."""
    return Evidence(Status.FAIL, text, next_step)


def unknown(text: str, next_step: str) -> Evidence:
    """Nothing shows whether it is met."""
    return Evidence(Status.UNKNOWN, text, next_step)


def counted(number: int, what: str) -> str:
    """A number of things in words."""
    return f"{number} {what}{'' if number == 1 else 's'}"
