"""The rules of alerts, as data: what the file of rules says, before a pipeline's settings change it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files


class Severity(str, Enum):
    """How urgent an alert is, from mild to urgent."""

    INFO = "info"
    WARN = "warn"
    BAD = "bad"

    def is_at_least(self, other: Severity) -> bool:
        """Whether it is as urgent as another one, or more."""
        order = list(Severity)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class Rule:
    """One rule; its condition is in ``alerts/conditions.py``.

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
        promql: the condition as a Prometheus query; empty if it cannot be written as one. ``PIPELINE``, ``ACTIVE``,
            ``THRESHOLD``, ``WINDOW``, ``WINDOW_SECONDS`` and ``ROWS`` are replaced.
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
    promql: str = ""


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by its name, in the order of the file."""
    text = files("headrace.model").joinpath("alert_rules.toml").read_text(encoding="utf-8")
    return {rule_id: _rule(rule_id, body) for rule_id, body in tomllib.loads(text).items()}


def _rule(rule_id: str, body: dict[str, object]) -> Rule:
    given: dict[str, object] = {**body, "severity": Severity(body["severity"])}
    inhibits = body.get("inhibits", [])
    assert isinstance(inhibits, list)  # noqa: S101 - our own file
    return Rule(rule_id=rule_id, **{**given, "inhibits": tuple(map(str, inhibits))})  # type: ignore[arg-type]
