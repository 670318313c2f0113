"""Which of a pipeline's names a statement can read, by its text. To register the others would take seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headrace.model.names import QualifiedName

# Statements that list names, compute them, or take them from settings, as Spark does for ``${key}``.
_ANY_NAME = re.compile(r"\b(?:show|identifier|execute)\b|\$\{", re.IGNORECASE)


def mentioned_names(
    query: str, names: Iterable[QualifiedName], views: Mapping[QualifiedName, str]
) -> frozenset[QualifiedName]:
    """The names that are in the text of a statement, or of a view that is. It may not read all of them, but no others.

    All names, if the statement can list or compute names.

    Args:
        query: the statement.
        names: those of tables and views.
        views: the queries of views, by name.
    """
    names = frozenset(names)
    found: frozenset[QualifiedName] = frozenset()
    texts = [query]
    while texts:
        text = texts.pop().casefold()
        if _ANY_NAME.search(text):
            return names
        new = {name for name in names - found if _has_word(text, name.name.casefold())}
        texts += [views[name] for name in new if name in views]
        found |= new
    return found


def _has_word(text: str, name: str) -> bool:
    """Whether a name is in a text, and not only as a part of a longer one.

    In the session, a view of another schema is ``schema__name``.
    """
    return name in text and re.search(rf"(?:(?<!\w)|(?<=__)){re.escape(name)}(?!\w)", text) is not None
