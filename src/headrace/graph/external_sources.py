"""The words by which users name what a flow reads outside of the pipeline: topics, tables, paths and kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from headrace.graph.analysis import Analysis, SourceKind

_KINDS = {
    SourceKind.AUTO_LOADER: ("auto_loader", "cloudFiles", "files"),
    SourceKind.FILES: ("files",),
}
_SEPARATORS = re.compile(r"[\s,\"']+")


def reads_source(analysis: Analysis, pattern: str) -> bool:
    """True if a flow reads an external source of this name, in any case; ``*``, ``?`` and ``[...]`` are wildcards.

    A path also has the name of its last folders and of each folder above, a table that of its last parts, and every
    source that of its kind, such as ``kafka`` or ``auto_loader``.
    """
    wanted = _folded(pattern)
    return any(fnmatchcase(_folded(word), wanted) for word in _words(analysis))


def _words(analysis: Analysis) -> Iterator[str]:
    for source in analysis.sources:
        yield from _KINDS.get(source.kind, ())
    if analysis.external_tables:
        yield "delta"
    for text in analysis.external:
        yield text
        for word in filter(None, _SEPARATORS.split(text)):
            yield word
            yield from _parts(word)


def _parts(word: str) -> Iterator[str]:
    """The ends of a path or of the name of a table, and the folders above a path."""
    scheme, colon, path = word.rpartition("://")
    if "/" not in path:
        parts = path.split(".")
        yield from (".".join(parts[at:]) for at in range(1, len(parts)))
        return
    folders = path.rstrip("/").split("/")
    for at in range(1, len(folders)):
        yield "/".join(folders[at:])
        yield f"{scheme}{colon}{'/'.join(folders[:at])}"


def _folded(text: str) -> str:
    return (text.rstrip("/") or text).casefold()
