"""Split a JSON text into records: objects and arrays of objects, one after the other, until something is neither.

A line usually holds one record. If it holds more, or a file with ``multiLine`` does, each of them is a record. Spark
silently reads only the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.autoloader.reading.json_scan import (
    Members,
    NotJson,
    ParseOptions,
    has_surrogate_escapes,
    is_blank,
    read_json_at,
    skip_space,
)

# Separators between the entries of an array over several lines.
_COMMAS = re.compile(r"[,\s]*")


@dataclass(frozen=True)
class Document:
    """One JSON value in a text, and its records.

    Attributes:
        text: the original text of the value.
        records: the object, or the objects of an array; None if the rest of the text is not a record.
        reason: why it is not a record.
        corrupt_text: the value for a corrupt record column: the whole text, including surrounding spaces, if it holds
            only this document. Source: Spark's ``JacksonParser``.
    """

    text: str
    records: list[Members] | None
    reason: str = ""
    corrupt_text: str = ""


def json_documents(text: str, parse_options: ParseOptions) -> Iterator[Document]:
    """Split a text into documents; the last one is the rest of the text if that is not a record.

    Law: everything outside of documents is space, commas between records, or comments if they are allowed.
    """
    at, exactly, is_first = 0, has_surrogate_escapes(text), True
    while True:
        at = skip_space(text, at, parse_options)
        if at == len(text):
            return
        try:
            value, end, exactly = read_json_at(text, at, parse_options, exactly=exactly)
        except NotJson as error:
            yield Document(text[at:], None, str(error))
            return
        entries = [value] if isinstance(value, Members) else value if isinstance(value, list) else [None]
        records = [entry for entry in entries if isinstance(entry, Members)]
        if len(records) != len(entries):
            yield Document(text[at:], None, "it is not a JSON object")
            return
        end_of_separator = _COMMAS.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
        is_alone = is_first and skip_space(text, end_of_separator, parse_options) == len(text)
        document_text = text if at == 0 and end == len(text) else text[at:end]
        yield Document(document_text, records, corrupt_text=text if is_alone else document_text)
        at, is_first = end_of_separator, False


def first_records(text: str, parse_options: ParseOptions) -> Iterator[Members]:
    """The records of a text, up to the first value that is not a record."""
    if not is_blank(text, parse_options):
        for document in json_documents(text, parse_options):
            yield from document.records or ()
