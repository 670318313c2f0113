"""Lints the text of a file."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headrace.errors import PipelineError
from headrace.lint.catalog import RULES, SUPPRESSION, rule_ids
from headrace.lint.edits import PlacedEdit, placed
from headrace.lint.program import Program, Span
from headrace.lint.rules import Rule, Severity, Violation
from headrace.lint.secrets import masked, secrets_in
from headrace.lint.source_files import Text, texts_of
from headrace.lint.sql_texts import Sql, sql_in, sql_strings, statements_of
from headrace.lint.suppressions import Suppression, suppressions_in, suppressions_in_strings
from headrace.model.location import Location
from headrace.notebooks import Language


@dataclass(frozen=True)
class Finding:
    """A violation of a rule at a location; columns count from 1, and the end column is exclusive.

    ``edits`` fix it; without any, it has no certain fix.
    """

    rule: Rule
    severity: Severity
    message: str
    fix: str
    location: Location
    column: int
    end: Location
    end_column: int
    line_text: str
    edits: tuple[PlacedEdit, ...] = ()

    def without(self, secrets: Collection[str]) -> Finding:
        """The same finding with these texts masked."""
        return replace(
            self,
            message=masked(self.message, secrets),
            fix=masked(self.fix, secrets),
            line_text=masked(self.line_text, secrets),
        )

    @property
    def reading_order(self) -> tuple[Any, ...]:
        """The sort key of findings."""
        return (*self.location.reading_order, self.column, self.rule.id)

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {
            "rule": self.rule.id,
            "severity": self.severity.value,
            "message": self.message,
            "why": self.rule.why,
            "instead": self.fix,
            "fixable": bool(self.edits),
            **self.location.to_json(),
            "column": self.column,
            "end_line": self.end.line,
            "end_column": self.end_column,
        }


@dataclass(frozen=True)
class Selection:
    """Which rules are checked: those in ``select``, or all, without those in ``ignore``."""

    select: Collection[str] = ()
    ignore: Collection[str] = ()

    def selects(self, rule_id: str) -> bool:
        """Whether a rule is checked."""
        return (not self.select or rule_id in self.select) and rule_id not in self.ignore

    @property
    def selects_all(self) -> bool:
        """Whether all rules are checked."""
        return not self.select and not self.ignore


ALL_RULES = Selection()
# Rules about single calls, which apply to a fragment of a chain too.
_SINGLE_CALL_RULES = frozenset(
    ("continuous-trigger", "once-trigger", "trigger-value", "ignore-changes", "secret-in-text")
)


@dataclass(frozen=True)
class LintResult:
    """The findings of a file in reading order, and the problems that kept it, or a part of it, from being read.

    ``secrets`` are texts of the file that must not be printed.
    """

    findings: tuple[Finding, ...] = ()
    problems: tuple[PipelineError, ...] = ()
    secrets: frozenset[str] = frozenset()


def lint_text(
    text: str, suffix: str, name: str, *, selection: Selection = ALL_RULES, in_project: bool = False
) -> LintResult:
    """Find code in a file that cannot work or is a trap, without running it.

    Args:
        text: the file's.
        suffix: the end of its name: ``.py``, ``.sql`` or ``.ipynb``.
        name: the file as the reader knows it.
        selection: which rules.
        in_project: whether it is a file of a pipeline, which has more names predefined than a script.
    """
    try:
        return _linted(text, suffix, name, selection, in_project)
    except PipelineError as error:
        return LintResult(problems=(error,))
    except (RecursionError, MemoryError):
        problem = PipelineError(
            "LINT.UNREADABLE", location=Location(name), file=name, reason="the code is nested too deeply"
        )
        return LintResult(problems=(problem,))


def _linted(text: str, suffix: str, name: str, selection: Selection, in_project: bool) -> LintResult:  # noqa: FBT001
    findings: list[Finding] = []
    problems: list[PipelineError] = []
    linters = [_PieceLinter(piece, name, in_project, problems) for piece in texts_of(text, suffix, name)]
    suppressions = [found for linter in linters for found in linter.suppressions()]
    secrets = frozenset(secret for linter in linters for secret in linter.secrets)
    for linter in linters:
        for rule, violation, lines in linter.violations():
            if selection.selects(rule.id) and not _is_suppressed(suppressions, rule, linter.text, lines):
                findings.append(_finding(rule, violation, linter.text))
    if selection.selects(SUPPRESSION.id):
        findings += [
            _finding(SUPPRESSION, violation, comment.text)
            for comment in suppressions
            # In text that was not checked, a suppression may have a use.
            for violation in (_unused(comment, selection) if not (comment.readable and problems) else ())
            if not _is_suppressed(
                [other for other in suppressions if other is not comment], SUPPRESSION, comment.text, ()
            )
        ]
    ordered = sorted(findings, key=lambda finding: finding.reading_order)
    return LintResult(tuple(finding.without(secrets) for finding in ordered), tuple(problems), secrets)


def _is_suppressed(suppressions: Iterable[Suppression], rule: Rule, text: Text, lines: Collection[int]) -> bool:
    # No short-circuit: every comment that covers the finding is marked as used.
    covering = [suppression.covers(rule.id, text, lines) for suppression in suppressions]
    return any(covering)


class _PieceLinter:
    """Checks one piece of a file; adds to *problems* what keeps it, or a part of it, from being checked."""

    def __init__(self, text: Text, name: str, in_project: bool, problems: list[PipelineError]) -> None:  # noqa: FBT001
        self.text = text
        self._statements: Sequence[Sql] = ()
        self._rules = rule_ids()
        self._program: Program | None = None
        problems += text.problems
        try:
            if text.language is Language.SQL:
                self._statements, problem = statements_of(text, name)
                problems += [problem] if problem is not None else []
            else:
                self._program = Program(text, text.parsed(), in_project)
        except PipelineError as error:
            problems.append(error)
            self._program = self._chain(in_project)

    def _chain(self, in_project: bool) -> Program | None:  # noqa: FBT001
        """Text that is not a program, parsed as the rest of a method chain; only rules about single calls check it."""
        rest = self.text.as_chain() if self.text.language is Language.PYTHON else None
        if rest is None:
            return None
        try:
            found = Program(rest, rest.parsed(), in_project)
        except PipelineError:
            return None
        self.text, self._rules = rest, _SINGLE_CALL_RULES
        return found

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Secrets in the text, which must not be printed."""
        found = secrets_in(self._program) if self._program is not None else ()
        return tuple(text for secret in found for text in secret.texts)

    def suppressions(self) -> Iterator[Suppression]:
        """The suppression comments in the text."""
        yield from suppressions_in(self.text)
        if self._program is not None:
            yield from suppressions_in_strings(self._program)

    def violations(self) -> Iterator[tuple[Rule, Violation, Collection[int]]]:
        """The violations, each with the lines on which a comment suppresses it."""
        if self._program is None:
            for sql in self._statements:
                for rule, violation in _in_sql(sql):
                    yield rule, violation, {violation.span.line, sql.spans[0].line}
            return
        statements = _Statements(self._program)
        for rule, violation in _violations(self._program):
            if rule.id in self._rules:
                yield rule, violation, statements.lines(violation.span.line)


def _violations(program: Program) -> Iterator[tuple[Rule, Violation]]:
    found: dict[tuple[str, Span], tuple[Rule, Violation]] = {}
    for rule in RULES:
        for violation in rule.check(program) if rule.check else ():
            found.setdefault((rule.id, violation.span), (rule, violation))
    for sql in sql_in(program):
        for rule, violation in _in_sql(sql):
            found.setdefault((rule.id, violation.span), (rule, violation))
    yield from found.values()


def _in_sql(sql: Sql) -> Iterator[tuple[Rule, Violation]]:
    for rule in RULES:
        for violation in rule.check_sql(sql) if rule.check_sql and sql.tokens else ():
            yield rule, violation


class _Statements:
    """The lines on which a comment applies to a line: itself, the first of its statement, the last of its SQL."""

    def __init__(self, program: Program) -> None:
        ranges = sorted(
            (node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(program.tree)
            if isinstance(node, ast.stmt)
        )
        # Of nested statements, the innermost begins last.
        self._first = {line: begin for begin, end in ranges for line in range(begin, end + 1)}
        strings = [(node.lineno, node.end_lineno or node.lineno) for node, _ in sql_strings(program)]
        self._last = {line: end for begin, end in strings for line in range(begin, end + 1)}

    def lines(self, line: int) -> Collection[int]:
        return {line, self._first.get(line, line), self._last.get(line, line)}


def _finding(rule: Rule, violation: Violation, text: Text) -> Finding:
    return Finding(
        rule,
        violation.severity or rule.severity,
        violation.message,
        violation.fix or rule.fix,
        text.location(violation.span.line),
        violation.span.column,
        text.location(violation.span.end_line),
        violation.span.end_column,
        text.lines[violation.span.line - 1] if violation.span.line <= len(text.lines) else "",
        tuple(placed(text, edit) for edit in violation.edits),
    )


def _unused(comment: Suppression, selection: Selection) -> Iterator[Violation]:
    """The rules that a comment names but does not suppress."""
    if not comment.readable:
        yield Violation(
            comment.span, "this ignore comment is malformed and has no effect", "# headrace: ignore[rule-id]"
        )
    elif not comment.ids and not comment.used and selection.selects_all:
        edits = comment.without()
        yield Violation(comment.span, "this comment suppresses no finding", "# remove the comment", edits=edits)
    for name in comment.ids:
        if name not in rule_ids():
            yield Violation(comment.span, f'unknown rule "{name}"', "headrace lint --help, docs/reference/lint.md")
        elif name not in comment.used and selection.selects(name):
            message = f'this comment suppresses no finding of "{name}"'
            yield Violation(comment.span, message, "# remove the comment", edits=comment.without(name))
