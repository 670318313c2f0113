"""What a rule is: its texts, which are data, and how it is looked for."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any

from headrace.lint.program import Program, Span
from headrace.lint.sql_texts import Sql


class Severity(str, Enum):
    """ERROR: it cannot work on open-source Spark. WARNING: it runs, and does something else than it seems to."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Hit:
    """One place where a rule is broken.

    ``instead`` is code in the words of the program, or empty where the rule's own says it; ``severity`` is another than
    the rule's where the place tells more.
    """

    span: Span
    message: str
    instead: str = ""
    severity: Severity | None = None


Look = Callable[[Program], Iterable[Hit]]
LookAtSql = Callable[[Sql], Iterable[Hit]]


@dataclass(frozen=True)
class Rule:
    """One thing that cannot work, or is a trap.

    Attributes:
        id: by which it is selected and suppressed; it never changes.
        title: what is found, in a few words.
        severity: how bad it is, where a place does not tell more.
        why: one sentence.
        quiet: where the rule says nothing, though it might seem to fit.
        instead: the replacement, as code.
        failing: a program that breaks the rule.
        passing: the same done right.
        look: finds it in Python, if it can be there.
        look_at_sql: finds it in SQL, if it can be there.
    """

    id: str
    title: str
    severity: Severity
    why: str
    quiet: str
    instead: str
    failing: str
    passing: str
    look: Look | None = None
    look_at_sql: LookAtSql | None = None


def rule(id_: str, look: Look | None = None, *, sql: LookAtSql | None = None) -> Rule:
    """The rule whose texts are in ``rules.toml`` under *id_*."""
    texts = dict(_texts()[id_])
    severity = Severity(texts.pop("severity"))
    return Rule(id=id_, severity=severity, look=look, look_at_sql=sql, **{k: v.strip() for k, v in texts.items()})


@cache
def _texts() -> Mapping[str, Mapping[str, Any]]:
    raw: dict[str, dict[str, Any]] = tomllib.loads(
        files("headrace.lint").joinpath("rules.toml").read_text(encoding="utf-8")
    )
    return raw
