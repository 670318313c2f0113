"""Implements ``headrace lint --fix``; only that call loads it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from headrace.cli.failures import DONE, FAILED, WRONG, show
from headrace.cli.invocation import Invocation
from headrace.cli.lint_command import document, print_findings, wanted_rules
from headrace.cli.lint_inputs import LintInput, lint_inputs
from headrace.cli.printable import printable
from headrace.errors import PipelineError
from headrace.lint.fixes import FixResult, fix_text
from headrace.lint.lint_files import Finding, LintResult, Selection
from headrace.lint.secrets import masked

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_LINE_END = "\n\\ No newline at end of file\n"


@dataclass(frozen=True)
class _Fixed:
    """A file, its old text and its fixes."""

    source: LintInput
    old: str
    result: FixResult

    @property
    def diff(self) -> str:
        """The change as a unified diff; secrets in its lines are masked."""
        old, new = _LINE.findall(self.old), _LINE.findall(self.result.text)
        lines = unified_diff(old, new, f"a/{self.source.name}", f"b/{self.source.name}")
        return masked("".join(map(_shown, lines)), self.result.left.secrets)


def run(invocation: Invocation, files: Sequence[Path], selection: tuple[Sequence[str], ...], *, writes: bool) -> int:
    """Fix files, print what was fixed and what is left, and return the exit code.

    Args:
        invocation: how to find the project, and how to print.
        files: files and folders; if empty, those of the project.
        selection: the values of ``--select`` and ``--ignore``.
        writes: write the files; otherwise print the diff only.

    Raises:
        PipelineError, Problems: a rule or file does not exist, or the project cannot be read.
    """
    wanted = wanted_rules(selection)
    done = [_fixed(source, wanted) for source in lint_inputs(invocation, files)]
    problems = [problem for one in done for problem in one.result.left.problems]
    changed = [one for one in done if one.result.fixed]
    unwritten: list[_Fixed] = []
    for one in changed if writes else ():
        try:
            one.source.write(one.result.text, old=one.old)
        except PipelineError as error:
            problems.append(error)
            unwritten.append(one)
    changed = [one for one in changed if one not in unwritten]
    diff = "".join(one.diff for one in changed)
    left = [finding for one in done for finding in one.result.left.findings]
    if invocation.as_json:
        fixed = [finding.to_json() for one in changed for finding in sorted(one.result.fixed, key=_reading_order)]
        value = {**document(left, problems, len(done)), "fixed": fixed}
        invocation.result("", value if writes else {**value, "diff": diff})
    elif writes:
        for one in changed:
            rules = Counter(finding.rule.id for finding in one.result.fixed)
            counts = ", ".join(f"{rule} ({count})" for rule, count in sorted(rules.items()))
            invocation.say(printable(f"{one.source.name}: fixed {counts}"))
        print_findings(left, problems, len(done), invocation)
    else:
        sys.stdout.write(diff)
        for problem in problems:
            show(problem)
        invocation.say(_summary(changed, "would be fixed"))
    if problems:
        return WRONG
    return FAILED if (left if writes else changed) else DONE


def _fixed(source: LintInput, selection: Selection) -> _Fixed:
    try:
        text = source.read()
    except PipelineError as error:
        return _Fixed(source, "", FixResult("", (), (), LintResult(problems=(error,))))
    suffix = source.file.suffix
    return _Fixed(source, text, fix_text(text, suffix, source.name, selection=selection, in_project=source.in_project))


def _reading_order(finding: Finding) -> Any:
    return finding.reading_order


def _shown(line: str) -> str:
    """A line of a diff without control characters, except those at its end."""
    body = line.rstrip("\r\n")
    return printable(body, keep="\t") + (line[len(body) :] or _NO_LINE_END)


def _summary(changed: Sequence[_Fixed], verb: str) -> str:
    count = sum(len(one.result.fixed) for one in changed)
    if not count:
        return "nothing to fix"
    files = f"{len(changed)} file{'' if len(changed) == 1 else 's'}"
    return f"{count} finding{'' if count == 1 else 's'} {verb} in {files}"
