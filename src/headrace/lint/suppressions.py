"""Suppression comments: ``# headrace: ignore[rule-id]``, and ``ignore-file`` for a whole file."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headrace.lint.edits import Edit, Edits
from headrace.lint.program import Program, Span
from headrace.lint.source_files import Text
from headrace.lint.sql_texts import sql_strings
from headrace.notebooks import Language
from headrace.sql.lexer import lex

_BEGIN = re.compile(r"headrace:\s*ignore")
# After the word come ids in brackets, or nothing but another comment.
_COMMENT = re.compile(r"headrace:\s*ignore(?P<file>-file)?(?:\[(?P<ids>[^\[\]]*[\w-][^\[\]]*)\]|(?=\s*(?:#|--|$)))")

# A comment that begins with the marker.
_ALONE = re.compile(r"[ \t]*(?:#|--)[ \t]*$")


@dataclass(frozen=True)
class Suppression:
    """One comment. Without ids it applies to every rule; ``used`` collects the ids that it suppressed.

    ``readable`` is False for a malformed one, which suppresses nothing.
    """

    text: Text
    span: Span
    ids: tuple[str, ...]
    whole_file: bool
    readable: bool = True
    used: set[str] = field(default_factory=set)

    def covers(self, rule_id: str, text: Text, lines: Iterable[int]) -> bool:
        """Whether the comment suppresses a finding on one of these lines; if so, records it as used."""
        here = self.readable and (self.whole_file or (text is self.text and self.span.line in lines))
        covered = here and (not self.ids or rule_id in self.ids)
        if covered:
            self.used.add(rule_id)
        return covered

    def without(self, name: str = "") -> Edits:
        """The edit that removes an id from the comment, or the whole comment; an emptied line goes, too."""
        others = [other for other in self.ids if other != name]
        line = self.text.lines[self.span.line - 1]
        before, after = line[: self.span.column - 1], line[self.span.end_column - 1 :]
        if name and others:
            return (Edit(self.span, f"headrace: ignore{'-file' if self.whole_file else ''}[{','.join(others)}]"),)
        marker = _ALONE.search(before)
        if marker is None:
            return ()
        if after.strip():
            # Another comment follows on the line.
            begin = self.span.column - len(marker.group().lstrip())
            end = self.span.end_column + len(after) - len(after.lstrip())
            return (Edit(Span(self.span.line, begin, self.span.line, end), ""),)
        if not before[: marker.start()].strip() and self.span.line < len(self.text.lines):
            return (Edit(Span(self.span.line, 1, self.span.line + 1, 1), ""),)
        return (Edit(Span(self.span.line, marker.start() + 1, self.span.line, len(line) + 1), ""),)


def suppressions_in(text: Text) -> Iterator[Suppression]:
    """The suppression comments of a text."""
    yield from _read(text, _sql_comments(text) if text.language is Language.SQL else _python_comments(text))


def suppressions_in_strings(program: Program) -> Iterator[Suppression]:
    """The suppression comments in the SQL that a program passes to Spark."""
    for node, value in sql_strings(program):
        lines = tuple(value.split("\n"))
        # The lines of the string must match lines of the file.
        if len(lines) == (node.end_lineno or node.lineno) - node.lineno + 1:
            inner = Text(Language.SQL, lines, ())
            for line, _, comment in _sql_comments(inner):
                at = node.lineno + line - 1
                column = program.text.lines[at - 1].find(comment)
                if column >= 0:
                    yield from _read(program.text, [(at, column + 1, comment)])


def _read(text: Text, comments: Iterable[tuple[int, int, str]]) -> Iterator[Suppression]:
    for line, column, comment in comments:
        marker = _BEGIN.search(comment)
        if marker is None:
            continue
        found = _COMMENT.match(comment, marker.start())
        end = found.end() if found is not None else len(comment.rstrip())
        span = Span(line, column + marker.start(), line, column + end)
        if found is None:
            yield Suppression(text, span, (), whole_file=False, readable=False)
        else:
            ids = tuple(word.strip() for word in (found["ids"] or "").split(",") if word.strip())
            yield Suppression(text, span, ids, found["file"] is not None)


def _python_comments(text: Text) -> Iterator[tuple[int, int, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text.code).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1] + 1, token.string
    except (tokenize.TokenError, SyntaxError):
        # The text is not Python, which is reported separately.
        return


def _sql_comments(text: Text) -> Iterator[tuple[int, int, str]]:
    inside = [(token.start, token.end) for token in lex(text.code).tokens]
    begin = 0
    for number, line in enumerate(text.lines, 1):
        at = line.find("--")
        while at >= 0:
            if not any(start <= begin + at < end for start, end in inside):
                yield number, at + 1, line[at:]
                break
            at = line.find("--", at + 2)
        begin += len(line) + 1
