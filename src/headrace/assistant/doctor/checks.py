"""The checks of the doctor, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any


class Severity(str, Enum):
    """How bad a finding is, from bad to mild.

    ERROR: the pipeline cannot continue, or loses data. WARNING: it will, or it does not do what it should. ADVICE: it
    works, and something is better done.
    """

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        check_id: its name, which never changes.
        severity: of findings that have none of their own.
        title: in a few words.
        means: what is wrong.
        remedy: what to do.
        reads: where its evidence comes from.
        errors: codes of errors of flows, each with a command; {dataset}, {flow} and the error's own {command}
            are replaced.
        warnings: codes of warnings in the event log.
        alerts: rules of alerts.
        lint: rules of lint.
    """

    check_id: str
    severity: Severity
    title: str
    means: str
    remedy: str
    reads: str
    errors: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    lint: tuple[str, ...] = ()

    @property
    def document(self) -> str:
        """The page of the knowledge base about it."""
        return f"troubleshooting/{self.check_id}"


@cache
def checks() -> Mapping[str, Check]:
    """Every check by its name, in causal order."""
    text = files("headrace.assistant.doctor").joinpath("checks.toml").read_text(encoding="utf-8")
    return {name: _check(name, body) for name, body in tomllib.loads(text).items()}


@cache
def checks_by(what: str) -> Mapping[str, Check]:
    """The check for each error code, warning, alert rule or lint rule.

    Args:
        what: ``errors``, ``warnings``, ``alerts`` or ``lint``.
    """
    return {name: check for check in checks().values() for name in getattr(check, what)}


def _check(name: str, body: Mapping[str, Any]) -> Check:
    warnings, alerts, lint = (tuple(map(str, body.get(key, ()))) for key in ("warnings", "alerts", "lint"))
    return Check(
        check_id=name,
        severity=Severity(body["severity"]),
        title=body["title"],
        means=body["means"],
        remedy=body["remedy"],
        reads=body["reads"],
        errors=dict(body.get("errors", {})),
        warnings=warnings,
        alerts=alerts,
        lint=lint,
    )
