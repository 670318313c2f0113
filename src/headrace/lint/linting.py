"""Files in, findings out."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headrace.errors import PipelineError
from headrace.lint.catalog import RULES, SUPPRESSION, rule_ids
from headrace.lint.program import Program, Span
from headrace.lint.rules import Hit, Rule, Severity
from headrace.lint.secrets import masked, secrets_in
from headrace.lint.sources import Text, texts_of
from headrace.lint.sql_texts import Sql, sql_in, sql_strings, statements_of
from headrace.lint.suppressions import Suppression, suppressions_in, suppressions_in_strings
from headrace.model.location import Location
from headrace.notebooks import Language


@dataclass(frozen=True)
class Finding:
    """A rule that is broken at a place; columns count from 1, and the last one is behind the end."""

    rule: Rule
    severity: Severity
    message: str
    instead: str
    location: Location
    column: int
    end: Location
    end_column: int
    line_text: str

    def without(self, secrets: Collection[str]) -> Finding:
        """The same with nothing of these texts in it."""
        return replace(
            self,
            message=masked(self.message, secrets),
            instead=masked(self.instead, secrets),
            line_text=masked(self.line_text, secrets),
        )

    @property
    def reading_order(self) -> tuple[Any, ...]:
        """What findings are sorted by."""
        return (*self.location.reading_order, self.column, self.rule.id)

    def to_json(self) -> dict[str, Any]:
        """The finding for a program."""
        return {
            "rule": self.rule.id,
            "severity": self.severity.value,
            "message": self.message,
            "why": self.rule.why,
            "instead": self.instead,
            **self.location.to_json(),
            "column": self.column,
            "end_line": self.end.line,
            "end_column": self.end_column,
        }


@dataclass(frozen=True)
class Selection:
    """Which rules are looked for: those in ``select``, or all, without those in ``ignore``."""

    select: Collection[str] = ()
    ignore: Collection[str] = ()

    def takes(self, rule_id: str) -> bool:
        """Whether a rule is looked for."""
        return (not self.select or rule_id in self.select) and rule_id not in self.ignore

    @property
    def everything(self) -> bool:
        """Whether all rules are."""
        return not self.select and not self.ignore


EVERYTHING = Selection()
# What the rest of a chain may break whatever stands before it.
_OF_ONE_CALL = frozenset(("continuous-trigger", "once-trigger", "trigger-value", "ignore-changes", "secret-in-text"))


@dataclass(frozen=True)
class Linted:
    """What came of a file: findings in reading order, and why it, or a part of it, could not be read."""

    findings: tuple[Finding, ...] = ()
    problems: tuple[PipelineError, ...] = ()


def lint_text(
    text: str, suffix: str, name: str, *, selection: Selection = EVERYTHING, in_project: bool = False
) -> Linted:
    """Look for what cannot work, or is a trap, in a file; nothing of it is run.

    Args:
        text: the file's.
        suffix: the end of its name: ``.py``, ``.sql`` or ``.ipynb``.
        name: the file as the reader knows it.
        selection: which rules.
        in_project: whether it is a file of a pipeline, in which more is there than in a script.
    """
    try:
        return _linted(text, suffix, name, selection, in_project)
    except PipelineError as error:
        return Linted(problems=(error,))
    except (RecursionError, MemoryError):
        problem = PipelineError(
            "LINT.UNREADABLE", location=Location(name), file=name, reason="the code is nested too deeply"
        )
        return Linted(problems=(problem,))


def _linted(text: str, suffix: str, name: str, selection: Selection, in_project: bool) -> Linted:  # noqa: FBT001
    findings: list[Finding] = []
    problems: list[PipelineError] = []
    looks = [_Look(piece, name, in_project, problems) for piece in texts_of(text, suffix, name)]
    suppressions = [found for look in looks for found in look.suppressions()]
    secrets = frozenset(secret for look in looks for secret in look.secrets)
    for look in looks:
        for rule, hit, lines in look.hits():
            if selection.takes(rule.id) and not _quiet(suppressions, rule, look.text, lines):
                findings.append(_finding(rule, hit, look.text))
    if selection.takes(SUPPRESSION.id):
        findings += [
            _finding(SUPPRESSION, hit, made.text)
            for made in suppressions
            # Of what was not looked at, nobody knows what there is to ignore.
            for hit in (_idle(made, selection) if not (made.readable and problems) else ())
            if not _quiet([other for other in suppressions if other is not made], SUPPRESSION, made.text, ())
        ]
    ordered = sorted(findings, key=lambda finding: finding.reading_order)
    return Linted(tuple(finding.without(secrets) for finding in ordered), tuple(problems))


def _quiet(suppressions: Iterable[Suppression], rule: Rule, text: Text, lines: Collection[int]) -> bool:
    # Every comment that covers it is in use, also beside another one.
    covering = [suppression.covers(rule.id, text, lines) for suppression in suppressions]
    return any(covering)


class _Look:
    """A look at one piece of a file; what keeps it, or a part of it, from being looked at is added to *problems*."""

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
        """What is no program, as the rest of a chain; only rules about calls of their own look at it."""
        rest = self.text.as_chain() if self.text.language is Language.PYTHON else None
        if rest is None:
            return None
        try:
            found = Program(rest, rest.parsed(), in_project)
        except PipelineError:
            return None
        self.text, self._rules = rest, _OF_ONE_CALL
        return found

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Texts in it that are not to be shown."""
        found = secrets_in(self._program) if self._program is not None else ()
        return tuple(text for secret in found for text in secret.texts)

    def suppressions(self) -> Iterator[Suppression]:
        """The comments in it that keep rules quiet."""
        yield from suppressions_in(self.text)
        if self._program is not None:
            yield from suppressions_in_strings(self._program)

    def hits(self) -> Iterator[tuple[Rule, Hit, Collection[int]]]:
        """What is found, with the lines on which a comment keeps it quiet."""
        if self._program is None:
            for sql in self._statements:
                for rule, hit in _in_sql(sql):
                    yield rule, hit, {hit.span.line, sql.spans[0].line}
            return
        statements = _Statements(self._program)
        for rule, hit in _hits(self._program):
            if rule.id in self._rules:
                yield rule, hit, statements.lines(hit.span.line)


def _hits(program: Program) -> Iterator[tuple[Rule, Hit]]:
    found: dict[tuple[str, Span], tuple[Rule, Hit]] = {}
    for rule in RULES:
        for hit in rule.look(program) if rule.look else ():
            found.setdefault((rule.id, hit.span), (rule, hit))
    for sql in sql_in(program):
        for rule, hit in _in_sql(sql):
            found.setdefault((rule.id, hit.span), (rule, hit))
    yield from found.values()


def _in_sql(sql: Sql) -> Iterator[tuple[Rule, Hit]]:
    for rule in RULES:
        for hit in rule.look_at_sql(sql) if rule.look_at_sql and sql.tokens else ():
            yield rule, hit


class _Statements:
    """On which lines a comment is about one: on itself, where its statement begins, and where its SQL ends."""

    def __init__(self, program: Program) -> None:
        ranges = sorted(
            (node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(program.tree)
            if isinstance(node, ast.stmt)
        )
        # Of statements in one another the innermost begins last.
        self._first = {line: begin for begin, end in ranges for line in range(begin, end + 1)}
        strings = [(node.lineno, node.end_lineno or node.lineno) for node, _ in sql_strings(program)]
        self._last = {line: end for begin, end in strings for line in range(begin, end + 1)}

    def lines(self, line: int) -> Collection[int]:
        return {line, self._first.get(line, line), self._last.get(line, line)}


def _finding(rule: Rule, hit: Hit, text: Text) -> Finding:
    return Finding(
        rule,
        hit.severity or rule.severity,
        hit.message,
        hit.instead or rule.instead,
        text.place(hit.span.line),
        hit.span.column,
        text.place(hit.span.end_line),
        hit.span.end_column,
        text.lines[hit.span.line - 1] if hit.span.line <= len(text.lines) else "",
    )


def _idle(made: Suppression, selection: Selection) -> Iterator[Hit]:
    """What a comment names that it does not keep quiet."""
    if not made.readable:
        yield Hit(made.span, "this ignore comment is malformed and has no effect", "# headrace: ignore[rule-id]")
    elif not made.ids and not made.used and selection.everything:
        yield Hit(made.span, "this comment suppresses no finding", "# remove the comment")
    for name in made.ids:
        if name not in rule_ids():
            yield Hit(made.span, f'unknown rule "{name}"', "headrace lint --help, docs/reference/lint.md")
        elif name not in made.used and selection.takes(name):
            yield Hit(made.span, f'this comment suppresses no finding of "{name}"', "# remove the comment")
