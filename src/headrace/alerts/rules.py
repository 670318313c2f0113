"""The rules of alerts, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files


class Severity(str, Enum):
    """How urgent an alert is."""

    INFO = "info"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True)
class Rule:
    """One rule; its condition is in ``conditions.py``.

    Attributes:
        rule_id: its name.
        severity: of its alerts.
        message: one line, with labels and values in braces.
        first_step: a command to begin with; labels in braces.
        runbook: what to do.
        for_s: how long the condition must hold before an alert opens.
        threshold: the value from which, or for a rate below which, the condition holds; 0 if it has none.
        window_s: the time over which an increase is measured; 0 for a rule about current values.
        least_rows: a share of fewer rows is no finding.
        inhibits: rules whose alerts about the same flow are hidden while this one's is open.
    """

    rule_id: str
    severity: Severity
    message: str
    first_step: str
    runbook: str
    for_s: float = 0
    threshold: float = 0
    window_s: float = 0
    least_rows: int = 0
    inhibits: tuple[str, ...] = ()


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by its name, in the order of the file."""
    text = files("headrace.alerts").joinpath("rules.toml").read_text(encoding="utf-8")
    return {rule_id: _rule(rule_id, body) for rule_id, body in tomllib.loads(text).items()}


def _rule(rule_id: str, body: dict[str, object]) -> Rule:
    given: dict[str, object] = {**body, "severity": Severity(body["severity"])}
    inhibits = body.get("inhibits", [])
    assert isinstance(inhibits, list)  # noqa: S101 - our own file
    return Rule(rule_id=rule_id, **{**given, "inhibits": tuple(map(str, inhibits))})  # type: ignore[arg-type]
