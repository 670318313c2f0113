"""The texts of the rows in an XML file: what stands between the tags of a name, found without reading the rest.

As Spark's ``XmlTokenizer`` finds them: what is around the rows need not be well formed, a row inside of a row is part
of it, and a row that is broken does not hide the next one. Comments, sections of CDATA and the document's type are
passed over, so that a tag in them is none.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator

from headrace.autoloader.reading.limits import RECORD_BYTES, SHOWN_BYTES, Limits, LongRecord
from headrace.autoloader.reading.opening import Decompressed, OpenedFile, open_decompressed

_DEFAULT = Limits()
_LONGEST_END = len("]]>")
_READ_BYTES = 1024 * 1024
# What ends a tag, or begins or ends a value in it, by the quote that the value is in.
_IN_QUOTES = {"": re.compile(r"[\"'<>]"), '"': re.compile(r'["<]'), "'": re.compile(r"['<]")}
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)


def xml_texts(path: str, tag: str, encoding: str, limits: Limits = _DEFAULT) -> Iterator[str | LongRecord]:
    """The text of each row of a file, from ``<tag`` to ``</tag>``; of one that does not end, all up to the file's end.

    Of a row that is longer than the limits allow comes where it is; behind its end, the next one is looked for.

    Raises:
        OSError: the file cannot be read.
    """
    with open_decompressed(path, limits) as stream:
        yield from rows_between(_decoded(stream, encoding), tag, limits.record_bytes)


def _decoded(stream: OpenedFile | Decompressed, encoding: str) -> Iterator[str]:
    # A mark of the byte order belongs to no text.
    plain = encoding.casefold().replace("_", "-")
    decoder = getincrementaldecoder("utf-8-sig" if plain in ("utf-8", "utf8") else encoding)("replace")
    while block := stream.read(_READ_BYTES):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def rows_between(texts: Iterable[str], tag: str, most: int = RECORD_BYTES) -> Iterator[str | LongRecord]:
    """The rows in a text that comes in pieces; of one with more than *most* letters, where it is and how it begins.

    Law: where it is cut into pieces does not matter.
    """
    found = _Finder(tag, most)
    for text in texts:
        yield from found.rows(text)
    yield from found.end()


class _Finder:
    """What is left of the text, and where in it the next thing is looked for."""

    def __init__(self, tag: str, most: int) -> None:
        self._most = most
        # Characters that were discarded, and the known part of the row that is too long.
        self._gone = 0
        self._long: LongRecord | None = None
        name = re.escape(tag)
        self._mark = re.compile(rf"<(?:!--|!\[CDATA\[|!DOCTYPE\b|(?P<open>{name}(?=[\s/>]))|(?P<close>/{name}\s*>))")
        # What may become a mark once more of it is there.
        self._longest_begin = max(len("<![CDATA["), len("<!DOCTYPE") + 1, len(tag) + 2)
        self._begins_close = re.compile(rf"</{name}\s*\Z")
        self._text = ""
        # Where the next mark is looked for, where the row begins that is open, and how many are open in it.
        self._at = 0
        self._row: int | None = None
        self._depth = 0
        # Of the mark that is looked at and does not end yet: how far its end has been looked for, and in which quote.
        self._seen = 0
        self._quote = ""

    def rows(self, text: str) -> Iterator[str | LongRecord]:
        self._text += text
        while (mark := self._mark.search(self._text, self._at)) is not None:
            end = self._end_of(mark)
            if end is None:
                break
            row = self._step(mark, end)
            if row is not None:
                yield row
        self._forget()

    def end(self) -> Iterator[str | LongRecord]:
        """The row that does not end, be it in the middle of its tag."""
        if self._row is None:
            mark = self._mark.match(self._text, self._at)
            self._row = mark.start() if mark is not None and mark["open"] is not None else None
        if self._row is not None:
            yield self._made(self._row, len(self._text))

    def _end_of(self, mark: re.Match[str]) -> int | None:
        """Where the whole of what a mark begins ends; None when that is not there yet."""
        self._at = mark.start()
        if mark["close"] is not None:
            return mark.end()
        if mark["open"] is not None:
            return self._end_of_tag(mark.end())
        if mark.group() == "<!DOCTYPE":
            doctype = _DOCTYPE.match(self._text, mark.start())
            return doctype and doctype.end()
        ending = "-->" if mark.group() == "<!--" else "]]>"
        # What has been looked at may hold the beginning of the end.
        begin = max(mark.end(), self._seen - len(ending) + 1)
        place = self._text.find(ending, begin)
        self._seen = len(self._text)
        return None if place < 0 else place + len(ending)

    def _end_of_tag(self, begin: int) -> int | None:
        """Where an opening tag ends: a value in quotes may hold ">" and no "<"; a broken one ends where one begins."""
        at = max(begin, self._seen)
        while (found := _IN_QUOTES[self._quote].search(self._text, at)) is not None:
            at = found.end()
            if found.group() == "<":
                return found.start()
            if found.group() == ">":
                return at
            self._quote = "" if self._quote else found.group()
        self._seen = len(self._text)
        return None

    def _step(self, mark: re.Match[str], end: int) -> str | LongRecord | None:
        """Go behind a mark; the row, where that ends one."""
        self._at, self._seen, self._quote = end, 0, ""
        if mark["open"] is not None:
            if self._row is None:
                self._row = mark.start()
            self._depth += not self._text.startswith("/>", end - 2)
        elif mark["close"] is not None:
            self._depth -= self._row is not None
        else:
            return None
        if self._row is None or self._depth > 0:
            return None
        row, self._row = self._made(self._row, self._at), None
        return row

    def _made(self, begin: int, end: int) -> str | LongRecord:
        long, self._long = self._long, None
        if long is not None:
            return LongRecord(long.at, self._gone + end - long.at, long.begins)
        if end - begin > self._most:
            return LongRecord(self._gone + begin, end - begin, self._text[begin : begin + SHOWN_BYTES].encode())
        return self._text[begin:end]

    def _forget(self) -> None:
        """Let go of the text before the open row, and of what can no longer be the beginning of a mark."""
        if not self._mark.match(self._text, self._at):
            # No mark has a bracket inside: one that is begun begins at the last.
            last = self._text.rfind("<", self._at)
            far = len(self._text) - last > self._longest_begin
            if last < 0 or (far and not self._begins_close.match(self._text, last)):
                last = len(self._text)
            self._at = last
        keep = self._at if self._row is None else self._row
        if len(self._text) - keep > self._most:
            keep = self._let_go(keep)
        self._gone += keep
        self._text = self._text[keep:]
        self._at -= keep
        self._seen = max(self._seen - keep, 0)
        self._row = None if self._row is None else 0

    def _let_go(self, begin: int) -> int:
        """Where to begin to keep what is too long: a row is noted, and its end is looked for all the same."""
        mark = self._mark.match(self._text, self._at)
        opens = mark is not None and mark["open"] is not None
        if self._long is None and (self._row is not None or opens):
            self._long = LongRecord(self._gone + begin, 0, self._text[begin : begin + SHOWN_BYTES].encode())
        if mark is not None and self._row is None and opens:
            # A tag of that length has no end worth looking for; that of its row may come.
            self._row, self._depth, self._at, self._seen, self._quote = begin, 1, len(self._text), 0, ""
        elif mark is not None and mark["close"] is None and len(self._text) - self._at > self._most:
            # Of a comment, or of what is like it, the beginning is enough; and what may be the beginning of its end.
            kept = self._text[: mark.end()] + ("" if opens else self._text[-_LONGEST_END:])
            self._gone += len(self._text) - len(kept)
            self._text, self._seen = kept, mark.end()
        return self._at
