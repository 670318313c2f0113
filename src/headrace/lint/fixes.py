"""Applies the edits of findings to the text of a file.

An edit is applied only if the file can be read afterwards, and if findings decrease and none is added. So fixing a file
again changes nothing, and a file without findings stays as it is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from headrace.lint.edits import PlacedEdit
from headrace.lint.lint_files import ALL_RULES, Finding, LintResult, Selection, lint_text
from headrace.model.location import split_cell
from headrace.notebooks import JSON_SUFFIX

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_ENDS = "\r\n"
# What stands before the text of a line in the vendor's source format, and at the begin of a file.
_BEFORE_LINE = re.compile(r"\ufeff?(?:(?:#|--) MAGIC(?: %\w+)? ?)?")
_INDENTS = (1, 2, 4, None)


@dataclass(frozen=True)
class FixResult:
    """A file with its fixes.

    Attributes:
        text: the file's new text.
        fixed: the findings whose edits were applied, in the order of their application.
        refused: the findings whose edits could not be applied.
        left: what lint finds in the new text.
    """

    text: str
    fixed: tuple[Finding, ...]
    refused: tuple[Finding, ...]
    left: LintResult


def fix_text(
    text: str, suffix: str, name: str, *, selection: Selection = ALL_RULES, in_project: bool = False
) -> FixResult:
    """Fix the findings of a file whose edit is certain; a file that cannot be read as a whole stays as it is.

    The arguments are those of :func:`~headrace.lint.lint_files.lint_text`; line ends and a byte order mark stay.
    """
    fixed: list[Finding] = []
    refused: dict[tuple[object, ...], Finding] = {}
    found = _Linted.of(text, suffix, name, selection, in_project)
    while not found.selected.problems:
        waiting = [one for one in found.selected.findings if one.edits and one.reading_order not in refused]
        if not waiting:
            break
        # From the end, as one reads: what was fixed stays where it is.
        finding = waiting[-1]
        edited = edited_text(text, suffix, finding.edits)
        after = None if edited is None else _Linted.of(edited, suffix, name, selection, in_project)
        if edited is None or after is None or not after.is_better_than(found):
            refused[finding.reading_order] = finding
            continue
        text, found = edited, after
        fixed.append(finding)
        refused.clear()
    return FixResult(text, tuple(fixed), tuple(refused.values()), found.selected)


@dataclass(frozen=True)
class _Linted:
    """A text with the findings of the selected rules and of all: a fix must violate no other rule, selected or not."""

    selected: LintResult
    all: LintResult

    @classmethod
    def of(cls, text: str, suffix: str, name: str, selection: Selection, in_project: bool) -> _Linted:  # noqa: FBT001
        every = lint_text(text, suffix, name, in_project=in_project)
        if selection.selects_all:
            return cls(every, every)
        return cls(lint_text(text, suffix, name, selection=selection, in_project=in_project), every)

    def is_better_than(self, before: _Linted) -> bool:
        """Whether findings decrease, and none is added."""
        return (
            not self.all.problems
            and _counts(self.selected) < _counts(before.selected)
            and (_counts(self.all) < _counts(before.all))
        )


def _counts(result: LintResult) -> Counter[str]:
    return Counter(finding.rule.id for finding in result.findings)


def edited_text(text: str, suffix: str, edits: Sequence[PlacedEdit]) -> str | None:
    """The text of a file with edits, or None if their places in the file are not certain."""
    if suffix != JSON_SUFFIX:
        return _edited_lines(text, edits)
    document = json.loads(text.removeprefix("\ufeff"))
    style = _style(document, text)
    if style is None:
        return None
    for file in dict.fromkeys(edit.start.file for edit in edits):
        cell = document["cells"][split_cell(file)[1] - 1]
        source = cell["source"]
        code = source if isinstance(source, str) else "".join(source)
        edited = _edited_lines(code, [edit for edit in edits if edit.start.file == file])
        if edited is None:
            return None
        cell["source"] = edited if isinstance(source, str) else re.findall(r"[^\n]*\n|[^\n]+", edited)
    return style.text_of(document)


def _edited_lines(text: str, edits: Iterable[PlacedEdit]) -> str | None:
    lines = [match.group() for match in _LINE.finditer(text)]
    line_end = next((end for line in lines if (end := line[len(line.rstrip(_ENDS)) :])), "\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for edit in sorted(edits, key=lambda one: (one.start.line, one.column), reverse=True):
        first, last = edit.start.line, edit.end.line
        if edit.start.file != edit.end.file or last - first + 1 != len(edit.lines) or last > len(lines):
            return None
        margins = [_margin(lines[first - 1 + at], line) for at, line in enumerate(edit.lines)]
        if None in margins or (any(margins[1:]) or (margins[0] and "\n" in edit.text and margins[0] != "\ufeff")):
            return None
        begin = starts[first - 1] + len(margins[0] or "") + edit.column - 1
        behind = starts[last - 1] + len(margins[-1] or "") + edit.end_column - 1
        text = text[:begin] + edit.text.replace("\n", line_end) + text[behind:]
    return text


def _margin(line: str, linted: str) -> str | None:
    """What stands in the file before the linted text of a line; None if the file has another text."""
    written = line.rstrip(_ENDS)
    margin = written.removesuffix(linted) if linted else written
    return margin if written.endswith(linted) and _BEFORE_LINE.fullmatch(margin) else None


@dataclass(frozen=True)
class _Style:
    """How a JSON file is written."""

    before: str
    indent: int | None
    ascii_only: bool
    after: str

    def text_of(self, document: object) -> str:
        body = json.dumps(document, indent=self.indent, ensure_ascii=self.ascii_only)
        return f"{self.before}{body}{self.after}"


def _style(document: object, text: str) -> _Style | None:
    """The style in which a document gives exactly this text, so that an edit changes nothing else."""
    before = "\ufeff" if text.startswith("\ufeff") else ""
    after = text[len(text.rstrip()) :]
    styles = (_Style(before, indent, ascii_only, after) for indent, ascii_only in product(_INDENTS, (False, True)))
    return next((style for style in styles if style.text_of(document) == text), None)
