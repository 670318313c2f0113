"""The records of a text of JSON: objects, and arrays of objects, one behind the other, until something is neither.

A line holds one record as a rule. Where it holds more, or a file with ``multiLine`` does, each of them is a record:
Spark reads the first one alone, and says nothing of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.autoloader.reading.json_scan import (
    Members,
    NotJson,
    ParseOptions,
    has_half_characters,
    read_json_at,
    says_nothing,
    space_behind,
)

# Between the entries of an array that is written over several lines.
_COMMAS = re.compile(r"[,\s]*")


@dataclass(frozen=True)
class Document:
    """Records that stand in one place of a text, and how that is written.

    Attributes:
        text: how they are written.
        records: the object, or the objects of an array; None where the rest of the text is no record.
        reason: why it is none.
        kept: what a column for corrupt records has of them: the whole text, with the spaces around, where they are
            alone in it. Source: Spark's ``JacksonParser``.
    """

    text: str
    records: list[Members] | None
    reason: str = ""
    kept: str = ""


def json_documents(text: str, leniency: ParseOptions) -> Iterator[Document]:
    """The records of a text; the last document is the rest of it where that is no record.

    Law: what is not in a document is space, commas between records, or a comment where these are allowed.
    """
    at, exactly, is_first = 0, has_half_characters(text), True
    while True:
        at = space_behind(text, at, leniency)
        if at == len(text):
            return
        try:
            value, end, exactly = read_json_at(text, at, leniency, exactly=exactly)
        except NotJson as error:
            yield Document(text[at:], None, str(error))
            return
        entries = [value] if isinstance(value, Members) else value if isinstance(value, list) else [None]
        records = [entry for entry in entries if isinstance(entry, Members)]
        if len(records) != len(entries):
            yield Document(text[at:], None, "it is no object of JSON")
            return
        behind = _COMMAS.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
        is_alone = is_first and space_behind(text, behind, leniency) == len(text)
        written = text if at == 0 and end == len(text) else text[at:end]
        yield Document(written, records, kept=text if is_alone else written)
        at, is_first = behind, False


def first_records(text: str, leniency: ParseOptions) -> Iterator[Members]:
    """The records of a text, up to the first thing that is none."""
    if not says_nothing(text, leniency):
        for document in json_documents(text, leniency):
            yield from document.records or ()
