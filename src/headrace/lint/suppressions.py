"""Comments that keep rules quiet: ``# headrace: ignore[rule-id]``, and ``ignore-file`` for a whole file."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headrace.lint.program import Program, Span
from headrace.lint.sources import Text
from headrace.lint.sql_texts import sql_strings
from headrace.notebooks import Language
from headrace.sql.lexer import lex

_BEGIN = re.compile(r"headrace:\s*ignore")
# Behind the word are ids in brackets, or nothing but another comment.
_COMMENT = re.compile(r"headrace:\s*ignore(?P<file>-file)?(?:\[(?P<ids>[^\[\]]*[\w-][^\[\]]*)\]|(?=\s*(?:#|--|$)))")


@dataclass(frozen=True)
class Suppression:
    """One comment. Without ids it is about every rule; ``used`` collects the ids that it kept quiet.

    ``readable`` is False for one that nobody can tell the meaning of, which keeps nothing quiet.
    """

    text: Text
    span: Span
    ids: tuple[str, ...]
    whole_file: bool
    readable: bool = True
    used: set[str] = field(default_factory=set)

    def covers(self, rule_id: str, text: Text, lines: Iterable[int]) -> bool:
        """Whether a finding on one of these lines is kept quiet; if so, that is noted."""
        here = self.readable and (self.whole_file or (text is self.text and self.span.line in lines))
        covered = here and (not self.ids or rule_id in self.ids)
        if covered:
            self.used.add(rule_id)
        return covered


def suppressions_in(text: Text) -> Iterator[Suppression]:
    """The comments of a text that keep rules quiet."""
    yield from _read(text, _sql_comments(text) if text.language is Language.SQL else _python_comments(text))


def suppressions_in_strings(program: Program) -> Iterator[Suppression]:
    """The same of the comments in the SQL that a program hands to Spark."""
    for node, value in sql_strings(program):
        lines = tuple(value.split("\n"))
        # Where a line of the text is not one of the file, nobody can tell which one it is.
        if len(lines) == (node.end_lineno or node.lineno) - node.lineno + 1:
            inner = Text(Language.SQL, lines, ())
            for line, _, comment in _sql_comments(inner):
                at = node.lineno + line - 1
                column = program.text.lines[at - 1].find(comment)
                if column >= 0:
                    yield from _read(program.text, [(at, column + 1, comment)])


def _read(text: Text, comments: Iterable[tuple[int, int, str]]) -> Iterator[Suppression]:
    for line, column, comment in comments:
        begun = _BEGIN.search(comment)
        if begun is None:
            continue
        found = _COMMENT.match(comment, begun.start())
        end = found.end() if found is not None else len(comment.rstrip())
        span = Span(line, column + begun.start(), line, column + end)
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
        # The text is no Python, which is reported in its own right.
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
