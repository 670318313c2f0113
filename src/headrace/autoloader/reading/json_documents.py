"""The records of a text of JSON: objects, and arrays of objects, one behind the other, until something is neither.

A line holds one record as a rule. Where it holds more, or a file with ``multiLine`` does, each of them is a record:
Spark reads the first one alone, and says nothing of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.autoloader.reading.json_scan import (
    Leniency,
    Members,
    NotJson,
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
    """

    text: str
    records: list[Members] | None
    reason: str = ""


def json_documents(text: str, leniency: Leniency) -> Iterator[Document]:
    """The records of a text; the last document is the rest of it where that is no record.

    Law: what is not in a document is space, commas between records, or a comment where these are allowed.
    """
    at, exactly = 0, has_half_characters(text)
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
        yield Document(text if at == 0 and end == len(text) else text[at:end], records)
        at = _COMMAS.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too


def first_records(text: str, leniency: Leniency) -> Iterator[Members]:
    """The records of a text, up to the first thing that is none."""
    if not says_nothing(text, leniency):
        for document in json_documents(text, leniency):
            yield from document.records or ()
