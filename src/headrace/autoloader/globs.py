"""Which files below a folder a path with wildcards means, as Hadoop's ``GlobPattern`` reads it.

``?`` and ``*`` stop at a slash, ``[a-c]`` and ``[^a-c]`` are classes, ``{x,y}`` are alternatives, and a backslash takes
the next character as it is. A path that means a folder means everything below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

_SPECIAL = re.compile(r"[*?\[{\\]")


class InvalidGlob(ValueError):
    """A text is no pattern; the message says why."""


@dataclass(frozen=True)
class PathPattern:
    """A path, or alternatives of one, split where the first wildcard stands.

    ``base`` is the folder, or file, to look at; ``branches`` are for each alternative the patterns of the levels below.
    """

    base: str
    branches: tuple[tuple[re.Pattern[str], ...], ...]

    def admits_folder(self, parts: Sequence[str]) -> bool:
        """Whether files that are meant may lie in or below the folder that is *parts* below the base."""
        return any(all(p.fullmatch(part) for p, part in zip(branch, parts, strict=False)) for branch in self.branches)

    def names_admitted(self, parts: Sequence[str]) -> tuple[re.Pattern[str], ...] | None:
        """Patterns of the files that are meant in the folder that is *parts* below the base; None for all of them."""
        depth = len(parts)
        above = [
            branch for branch in self.branches if all(p.fullmatch(part) for p, part in zip(branch, parts, strict=False))
        ]
        if any(len(branch) <= depth for branch in above):
            return None
        return tuple(branch[depth] for branch in above if len(branch) == depth + 1)


def path_pattern(path: str) -> PathPattern:
    """What *path* means; without a wildcard it is the base and everything below.

    Raises:
        InvalidGlob: brackets do not match.
    """
    alternatives = [alternative.rstrip("/").split("/") for alternative in _alternatives(path)]
    common = 0
    while all(
        common < len(levels) and not _SPECIAL.search(levels[common]) and levels[common] == alternatives[0][common]
        for levels in alternatives
    ):
        common += 1
    return PathPattern(
        base="/".join(alternatives[0][:common]) or "/",
        branches=tuple(tuple(_level(level) for level in levels[common:]) for levels in alternatives),
    )


def one_file(folder: str, name: str) -> PathPattern:
    """The file of that name alone."""
    return PathPattern(folder, ((re.compile(re.escape(name)),),))


@cache
def name_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of a name, for ``pathGlobFilter``.

    Raises:
        InvalidGlob: brackets do not match.
    """
    return re.compile("|".join(_level(alternative).pattern for alternative in _alternatives(pattern)))


def _alternatives(path: str) -> Iterator[str]:
    """The path with each combination of its braces written out; braces nest."""
    begin, depth, starts = -1, 0, []
    at = 0
    while at < len(path):
        letter = path[at]
        if letter == "\\":
            at += 1
        elif letter == "{":
            begin, depth = (at if depth == 0 else begin), depth + 1
            if depth == 1:
                starts = [at + 1]
        elif letter == "," and depth == 1:
            starts.append(at + 1)
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                ends = [start - 1 for start in starts[1:]] + [at]
                for start, end in zip(starts, ends, strict=True):
                    yield from _alternatives(path[:begin] + path[start:end] + path[at + 1 :])
                return
        at += 1
    if depth:
        raise InvalidGlob(f"unclosed brace in {path!r}")
    yield path


def _level(glob: str) -> re.Pattern[str]:
    found, at = "", 0
    while at < len(glob):
        letter = glob[at]
        if letter == "*":
            found += ".*"
        elif letter == "?":
            found += "."
        elif letter == "\\" and at + 1 < len(glob):
            at += 1
            found += re.escape(glob[at])
        elif letter == "[":
            end = glob.find("]", at + 2)
            if end < 0:
                raise InvalidGlob(f"unclosed bracket in {glob!r}")
            inner = glob[at + 1 : end]
            negated = inner[0] in "^!"
            found += f"[{'^' if negated else ''}{re.escape(inner[negated:]).replace(chr(92) + '-', '-')}]"
            at = end
        else:
            found += re.escape(letter)
        at += 1
    return re.compile(found, re.DOTALL)
