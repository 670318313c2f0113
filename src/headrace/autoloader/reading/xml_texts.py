"""The texts of the rows in an XML file: what stands between the tags of a name, found without reading the rest.

As Spark's ``XmlTokenizer`` finds them: what is around the rows need not be well formed, a row inside of a row is part
of it, and a row that is broken does not hide the next one. Comments, sections of CDATA and the document's type are
passed over, so that a tag in them is none.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator

from headrace.autoloader.reading.opening import Decompressed, OpenedFile, open_decompressed

_READ_BYTES = 1024 * 1024
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)


def xml_texts(path: str, tag: str, encoding: str) -> Iterator[str]:
    """The text of each row of a file, from ``<tag`` to ``</tag>``; of one that does not end, all up to the file's end.

    Raises:
        OSError: the file cannot be read.
    """
    with open_decompressed(path) as stream:
        yield from rows_between(_decoded(stream, encoding), tag)


def _decoded(stream: OpenedFile | Decompressed, encoding: str) -> Iterator[str]:
    # A mark of the byte order belongs to no text.
    plain = encoding.casefold().replace("_", "-")
    decoder = getincrementaldecoder("utf-8-sig" if plain in ("utf-8", "utf8") else encoding)("replace")
    while block := stream.read(_READ_BYTES):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def rows_between(texts: Iterable[str], tag: str) -> Iterator[str]:
    """The rows in a text that comes in pieces.

    Law: where it is cut into pieces does not matter.
    """
    found = _Finder(tag)
    for text in texts:
        yield from found.rows(text)
    yield from found.end()


class _Finder:
    """What is left of the text, and where in it the next thing is looked for."""

    def __init__(self, tag: str) -> None:
        name = re.escape(tag)
        # A value in quotes may hold ">" and no "<"; a tag that is broken ends where the next one begins.
        self._mark = re.compile(
            rf"<!--|<!\[CDATA\[|<!DOCTYPE\b"
            rf"|(?P<open><{name}(?=[\s/>])(?:(?:[^\"'<>]|\"[^\"<]*\"|'[^'<]*')*>|[^<]*(?=<)))"
            rf"|(?P<close></{name}\s*>)"
        )
        self._text = ""
        # Where the next mark is looked for, where the row begins that is open, and how many are open in it.
        self._at = 0
        self._row: int | None = None
        self._depth = 0

    def rows(self, text: str) -> Iterator[str]:
        self._text += text
        while (mark := self._mark.search(self._text, self._at)) is not None and self._has_end(mark):
            row = self._step(mark)
            if row is not None:
                yield row
        self._forget()

    def end(self) -> Iterator[str]:
        if self._row is not None:
            yield self._text[self._row :]

    def _has_end(self, mark: re.Match[str]) -> bool:
        """Whether the whole of what a mark begins is there."""
        self._at = mark.start()
        return mark["open"] is not None or mark["close"] is not None or self._end_of(mark) is not None

    def _end_of(self, mark: re.Match[str]) -> int | None:
        if mark.group() == "<!DOCTYPE":
            doctype = _DOCTYPE.match(self._text, mark.start())
            return doctype and doctype.end()
        ending = "-->" if mark.group() == "<!--" else "]]>"
        place = self._text.find(ending, mark.end())
        return None if place < 0 else place + len(ending)

    def _step(self, mark: re.Match[str]) -> str | None:
        """Go behind a mark; the row, where that ends one."""
        self._at = mark.end()
        if mark["open"] is not None:
            if self._row is None:
                self._row = mark.start()
            self._depth += not mark["open"].endswith("/>")
        elif mark["close"] is not None:
            self._depth -= self._row is not None
        else:
            self._at = self._end_of(mark) or self._at
            return None
        if self._row is None or self._depth > 0:
            return None
        row, self._row = self._text[self._row : self._at], None
        return row

    def _forget(self) -> None:
        """Let go of the text before the open row, and of what can no longer be the beginning of a mark."""
        if not self._mark.match(self._text, self._at):
            # No mark has a bracket inside: one that is begun begins at the last.
            last = self._text.rfind("<", self._at)
            self._at = len(self._text) if last < 0 else last
        keep = self._at if self._row is None else self._row
        self._text = self._text[keep:]
        self._at -= keep
        self._row = None if self._row is None else 0
