"""A lint rule: its texts, which are data, and its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from headrace.lint.edits import Edit
from headrace.lint.program import Program, Span
from headrace.lint.rule_texts import rule_texts
from headrace.lint.sql_texts import Sql


class Severity(str, Enum):
    """ERROR: it cannot work on open-source Spark. WARNING: it runs, but works differently than it seems."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Violation:
    """One violation of a rule.

    ``fix`` is replacement code with the program's own names; if empty, the rule's fix applies. ``severity`` overrides
    the rule's. ``edits`` are the edits of the text that fix it, if they are certain.
    """

    span: Span
    message: str
    fix: str = ""
    severity: Severity | None = None
    edits: tuple[Edit, ...] = ()


Check = Callable[[Program], Iterable[Violation]]
CheckSql = Callable[[Sql], Iterable[Violation]]


@dataclass(frozen=True)
class Rule:
    """A rule: something that cannot work, or is a trap.

    Attributes:
        id: selects and suppresses it; never changes.
        title: what it finds, in a few words.
        severity: of violations that have none of their own.
        why: one sentence.
        exceptions: where the rule seems to apply, but does not.
        fix: the replacement, as code.
        failing: a program that violates the rule.
        passing: the same program, fixed.
        fixable: which violations ``headrace lint --fix`` fixes; empty if none.
        check: finds violations in Python; None if there are none.
        check_sql: finds violations in SQL; None if there are none.
    """

    id: str
    title: str
    severity: Severity
    why: str
    exceptions: str
    fix: str
    failing: str
    passing: str
    fixable: str = ""
    check: Check | None = None
    check_sql: CheckSql | None = None


def rule(id_: str, check: Check | None = None, *, sql: CheckSql | None = None) -> Rule:
    """The rule whose texts are in ``rules.toml`` under *id_*."""
    texts = dict(rule_texts()[id_])
    severity = Severity(texts.pop("severity"))
    return Rule(id=id_, severity=severity, check=check, check_sql=sql, **{k: v.strip() for k, v in texts.items()})
