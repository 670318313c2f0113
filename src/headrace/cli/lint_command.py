"""Implements the verb lint; only that verb loads it, because the SQL parser is slow to import."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headrace.cli.arguments import names_in
from headrace.cli.failures import DONE, FAILED, WRONG, show
from headrace.cli.invocation import Invocation
from headrace.cli.lint import LintFormat
from headrace.cli.lint_inputs import LintInput, lint_inputs
from headrace.cli.printable import printable
from headrace.cli.terminal import folded, width_of
from headrace.errors import PipelineError, Problems, raise_all
from headrace.lint.catalog import rule_ids, rule_of
from headrace.lint.lint_files import Finding, LintResult, Selection, lint_text
from headrace.lint.rules import Rule, Severity
from headrace.lint.sarif import sarif_of
from headrace.model.location import split_cell
from headrace.model.version import __version__

_DEEPEST = 10_000
_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}


def run(invocation: Invocation, files: Sequence[Path], form: LintFormat, selection: tuple[Sequence[str], ...]) -> int:
    """Lint files, print the findings, and return the exit code.

    Args:
        invocation: how to find the project, and how to print.
        files: files and folders; if empty, those of the project.
        form: the output format.
        selection: the values of ``--select`` and ``--ignore``.

    Raises:
        PipelineError, Problems: a rule or file does not exist, or the project cannot be read.
    """
    wanted = wanted_rules(selection)
    found = [_linted(source, wanted) for source in lint_inputs(invocation, files)]
    findings = [finding for linted in found for finding in linted.findings]
    problems = [problem for linted in found for problem in linted.problems]
    if form is LintFormat.SARIF:
        # File names need not be UTF-8, and only ASCII can always be written.
        sys.stdout.write(json.dumps(sarif_of(findings, problems, __version__), indent=1) + "\n")
    elif form is LintFormat.JSON:
        invocation.result("", document(findings, problems, len(found)))
    else:
        print_findings(findings, problems, len(found), invocation)
    if problems:
        return WRONG
    return FAILED if findings else DONE


def show_rule(name: str, invocation: Invocation) -> None:
    """Print a rule.

    Raises:
        Problems: LINT.UNKNOWN_RULE.
    """
    _rules([name])
    rule = rule_of(name)
    if rule is not None:
        invocation.result(_rule_text(rule), _rule_json(rule))


def wanted_rules(options: tuple[Sequence[str], ...]) -> Selection:
    """The rules that the values of ``--select`` and ``--ignore`` name.

    Raises:
        Problems: LINT.UNKNOWN_RULE.
    """
    # A chain of a few hundred calls, which programs do contain, is as many levels deep.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST))
    return Selection(*map(_rules, options))


def _rules(options: Sequence[str]) -> tuple[str, ...]:
    names = names_in(options)
    unknown = [name for name in names if name not in rule_ids()]
    raise_all(
        PipelineError("LINT.UNKNOWN_RULE", rule=name, near=get_close_matches(name, sorted(rule_ids()), 1, 0.0)[0])
        for name in unknown
    )
    return names


def _linted(source: LintInput, selection: Selection) -> LintResult:
    try:
        text = source.read()
    except PipelineError as error:
        return LintResult(problems=(error,))
    return lint_text(text, source.file.suffix, source.name, selection=selection, in_project=source.in_project)


def document(findings: Sequence[Finding], problems: Sequence[PipelineError], files: int) -> dict[str, Any]:
    """Findings and problems as JSON."""
    wrong = Problems(problems).to_json() if problems else {}
    return {**wrong, "files": files, "findings": [finding.to_json() for finding in findings]}


def print_findings(
    findings: Sequence[Finding], problems: Sequence[PipelineError], files: int, invocation: Invocation
) -> None:
    """Print findings and problems, and their number."""
    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        console.print(_text(finding, width_of(console)), end="\n\n")
    for problem in problems:
        show(problem)
    count = f"{len(findings)} finding{'' if len(findings) == 1 else 's'}" if findings else "no findings"
    unread = len({split_cell(problem.location.file)[0] for problem in problems if problem.location is not None})
    rest = f", {unread} of them only partly readable" if unread else ""
    invocation.say(f"{count} in {files} file{'' if files == 1 else 's'}{rest}")
    fixable = sum(bool(finding.edits) for finding in findings)
    if fixable:
        invocation.say(f"{fixable} can be fixed with `headrace lint --fix`")


def _text(finding: Finding, width: int | None) -> Text:
    line = str(finding.location.line)
    gutter = " " * len(line)
    code, column, length = _excerpt(finding, None if width is None else width - len(gutter) - len(" | "))
    text = _headline(finding, width)
    colour = _COLOURS[finding.severity]
    text.append_text(Text.assemble((f"{gutter} |\n{line} | ", "blue"), f"{code}\n"))
    text.append_text(Text.assemble((f"{gutter} | ", "blue"), (f"{' ' * column}{'^' * length}", colour)))
    why, (first, *more) = finding.rule.why, printable(finding.fix, keep="\n").splitlines()
    for label, said in (("why: ", why), ("fix: ", first)):
        begin = f"{gutter} = {label}"
        shown = folded(begin + said, width).removeprefix(begin)
        text.append_text(Text.assemble((f"\n{gutter} = ", "blue"), (label, "cyan"), shown))
    for rest in more:
        # A replacement is code, which is copied.
        text.append(f"\n{gutter}   {' ' * len('fix: ')}{rest}")
    return text


def _headline(finding: Finding, width: int | None) -> Text:
    position = printable(f"{finding.location.file}:{finding.location.line}:{finding.column}")
    severity, rule = finding.severity.value, finding.rule.id
    text = Text(folded(f"{position}: {severity} {rule}: {printable(finding.message)}", width) + "\n")
    text.highlight_words([position], "bold")
    text.highlight_words([f"{severity} {rule}"], "bold")
    text.highlight_words([severity], _COLOURS[finding.severity])
    return text


def _excerpt(finding: Finding, room: int | None) -> tuple[str, int, int]:
    """The line of a finding, what stands before the found part, and how long that is; a long line loses its ends."""
    code = printable(finding.line_text.expandtabs(1))
    end = finding.end_column if finding.end == finding.location else len(code) + 1
    # An empty span ends in the column in which it begins.
    column, length = finding.column - 1, max(1, end - finding.column)
    if room is None or len(code) <= room:
        return code, column, length
    start = max(0, min(column - room // 4, len(code) - room))
    shown = code[start : start + room]
    shown = ("…" + shown[1:] if start else shown)[: room - 1] + ("…" if start + room < len(code) else shown[-1:])
    return shown, column - start, max(1, min(length, room - column + start))


def _rule_text(rule: Rule) -> str:
    """A rule as text."""
    lines = [f"{rule.id}: {rule.title} ({rule.severity.value})", f"  why: {rule.why}", f"  fix: {rule.fix}"]
    lines += [f"  exceptions: {rule.exceptions}"]
    lines += [f"  --fix: {rule.fixable}"] if rule.fixable else []
    for label, example in (("fails", rule.failing), ("works", rule.passing)):
        lines += [f"  {label}:", *(f"    {line}".rstrip() for line in example.splitlines())]
    return "\n".join(lines)


def _rule_json(rule: Rule) -> dict[str, str]:
    """A rule as JSON."""
    return {
        "rule": rule.id,
        "title": rule.title,
        "severity": rule.severity.value,
        "why": rule.why,
        "instead": rule.fix,
        "quiet": rule.exceptions,
        "fixable": rule.fixable,
        "failing": rule.failing,
        "passing": rule.passing,
    }
