"""Paths with wildcards, with the semantics of Hadoop's ``GlobPattern``.

``?`` and ``*`` do not match a slash, ``[a-c]`` and ``[^a-c]`` are classes, ``{x,y}`` are alternatives, and a backslash
escapes the next character. A path that matches a folder selects everything below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

_SPECIAL = re.compile(r"[*?\[{\\]")


class InvalidGlob(ValueError):
    """A text is not a valid pattern; the message says why."""


@dataclass(frozen=True)
class PathPattern:
    """A path, or alternatives, split at the first level with a wildcard.

    ``base`` is the folder or file to start at; ``branches`` holds, for each alternative, a pattern per level below.
    """

    base: str
    branches: tuple[tuple[re.Pattern[str], ...], ...]

    def admits_folder(self, parts: Sequence[str]) -> bool:
        """Whether the folder at *parts* below the base may contain selected files, at any depth."""
        return any(all(p.fullmatch(part) for p, part in zip(branch, parts, strict=False)) for branch in self.branches)

    def name_patterns(self, parts: Sequence[str]) -> tuple[re.Pattern[str], ...] | None:
        """Patterns for file names in the folder at *parts* below the base; None if all files are selected."""
        depth = len(parts)
        matching = [
            branch for branch in self.branches if all(p.fullmatch(part) for p, part in zip(branch, parts, strict=False))
        ]
        if any(len(branch) <= depth for branch in matching):
            return None
        return tuple(branch[depth] for branch in matching if len(branch) == depth + 1)


def path_pattern(path: str) -> PathPattern:
    """Parse a path; without a wildcard it selects everything below.

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
        branches=tuple(tuple(_level_pattern(level) for level in levels[common:]) for levels in alternatives),
    )


def single_file_pattern(folder: str, name: str) -> PathPattern:
    """A pattern that matches exactly one file."""
    return PathPattern(folder, ((re.compile(re.escape(name)),),))


@cache
def name_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern for file names, for ``pathGlobFilter``.

    Raises:
        InvalidGlob: brackets do not match.
    """
    return re.compile("|".join(_level_pattern(alternative).pattern for alternative in _alternatives(pattern)))


def _alternatives(path: str) -> Iterator[str]:
    """Expand the braces of a path; braces nest."""
    brace_start, depth, starts = -1, 0, []
    position = 0
    while position < len(path):
        character = path[position]
        if character == "\\":
            position += 1
        elif character == "{":
            brace_start, depth = (position if depth == 0 else brace_start), depth + 1
            if depth == 1:
                starts = [position + 1]
        elif character == "," and depth == 1:
            starts.append(position + 1)
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                ends = [start - 1 for start in starts[1:]] + [position]
                for start, end in zip(starts, ends, strict=True):
                    yield from _alternatives(path[:brace_start] + path[start:end] + path[position + 1 :])
                return
        position += 1
    if depth:
        raise InvalidGlob(f"unclosed brace in {path!r}")
    yield path


def _level_pattern(glob: str) -> re.Pattern[str]:
    found, position = "", 0
    while position < len(glob):
        character = glob[position]
        if character == "*":
            found += ".*"
        elif character == "?":
            found += "."
        elif character == "\\" and position + 1 < len(glob):
            position += 1
            found += re.escape(glob[position])
        elif character == "[":
            end = glob.find("]", position + 2)
            if end < 0:
                raise InvalidGlob(f"unclosed bracket in {glob!r}")
            inner = glob[position + 1 : end]
            negated = inner[0] in "^!"
            found += f"[{'^' if negated else ''}{re.escape(inner[negated:]).replace(chr(92) + '-', '-')}]"
            position = end
        else:
            found += re.escape(character)
        position += 1
    return re.compile(found, re.DOTALL)
