"""Find the texts of rows in an XML file by their tags, without parsing the rest.

As in Spark's ``XmlTokenizer``, the text around rows need not be well formed, a nested row is part of the outer one, and
a malformed row does not hide the next one. Comments, CDATA sections and the document type are skipped, so tags inside
them are ignored.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator

from headrace.autoloader.reading.limits import MAX_PREFIX_BYTES, RECORD_BYTES, Limits, LongRecord
from headrace.autoloader.reading.opening import open_decompressed

_DEFAULT = Limits()
_LONGEST_END = len("]]>")
_READ_BYTES = 1024 * 1024
# The characters that end a tag, or begin or end a quoted value in it, by the current quote.
_IN_QUOTES = {"": re.compile(r"[\"'<>]"), '"': re.compile(r'["<]'), "'": re.compile(r"['<]")}
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)


def decoded(path: str, encoding: str, limits: Limits = _DEFAULT) -> Iterator[str]:
    """Yield the text of a file in blocks.

    Raises:
        OSError: the file cannot be read.
    """
    # A byte order mark is not part of the text.
    plain = encoding.casefold().replace("_", "-")
    decoder = getincrementaldecoder("utf-8-sig" if plain in ("utf-8", "utf8") else encoding)("replace")
    with open_decompressed(path, limits) as stream:
        while block := stream.read(_READ_BYTES):
            yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def xml_texts(path: str, tag: str, encoding: str, limits: Limits = _DEFAULT) -> Iterator[str | LongRecord]:
    """Yield the text of each row of a file, from ``<tag`` to ``</tag>``; an unclosed row extends to the file's end.

    A row that exceeds the limits becomes a :class:`LongRecord`; the next row is searched after its end.

    Raises:
        OSError: the file cannot be read.
    """
    yield from rows_between(decoded(path, encoding, limits), tag, limits.record_bytes)


def rows_between(texts: Iterable[str], tag: str, max_characters: int = RECORD_BYTES) -> Iterator[str | LongRecord]:
    """Yield the rows in a text given in pieces; a row of more than *most* characters becomes a :class:`LongRecord`.

    Law: the result does not depend on where the text is cut.
    """
    found = RowFinder(tag, max_characters)
    for text in texts:
        yield from found.rows(text)
    yield from found.end()


class RowFinder:
    """Finds rows in a text that comes in pieces.

    Args:
        tag: the name of the rows' elements.
        max_characters: a longer row becomes a :class:`LongRecord`.
    """

    def __init__(self, tag: str, max_characters: int) -> None:
        self._most = max_characters
        # The number of discarded characters, and the record of a row that is too long.
        self._discarded = 0
        self._long_row: LongRecord | None = None
        name = re.escape(tag)
        self._mark = re.compile(rf"<(?:!--|!\[CDATA\[|!DOCTYPE\b|(?P<open>{name}(?=[\s/>]))|(?P<close>/{name}\s*>))")
        # The maximum length of an incomplete mark.
        self._longest_begin = max(len("<![CDATA["), len("<!DOCTYPE") + 1, len(tag) + 2)
        self._begins_close = re.compile(rf"</{name}\s*\Z")
        self._buffer = ""
        # The search position, the start of the open row, and the nesting depth in it.
        self._at = 0
        self._row: int | None = None
        self._depth = 0
        # For an incomplete mark: how far its end was searched, and the current quote.
        self._searched = 0
        self._quote = ""

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the text so far matters to what follows."""
        return self._row is None and not self._buffer

    def skip(self, characters: int) -> None:
        """Pass a piece of text without reading it; only if idle."""
        self._discarded += characters

    def rows(self, text: str) -> Iterator[str | LongRecord]:
        """Yield the rows that end in a piece of text."""
        self._buffer += text
        while (mark := self._mark.search(self._buffer, self._at)) is not None:
            end = self._end_of(mark)
            if end is None:
                break
            row = self._step(mark, end)
            if row is not None:
                yield row
        self._discard_read()

    def end(self) -> Iterator[str | LongRecord]:
        """Yield the unclosed row, even if its tag is incomplete."""
        if self._row is None:
            mark = self._mark.match(self._buffer, self._at)
            self._row = mark.start() if mark is not None and mark["open"] is not None else None
        if self._row is not None:
            yield self._row_text(self._row, len(self._buffer))

    def _end_of(self, mark: re.Match[str]) -> int | None:
        """The end of the construct that a mark begins; None if it is not in the text yet."""
        self._at = mark.start()
        if mark["close"] is not None:
            return mark.end()
        if mark["open"] is not None:
            return self._end_of_tag(mark.end())
        if mark.group() == "<!DOCTYPE":
            doctype = _DOCTYPE.match(self._buffer, mark.start())
            return doctype and doctype.end()
        ending = "-->" if mark.group() == "<!--" else "]]>"
        # The searched part may contain the beginning of the ending.
        begin = max(mark.end(), self._searched - len(ending) + 1)
        position = self._buffer.find(ending, begin)
        self._searched = len(self._buffer)
        return None if position < 0 else position + len(ending)

    def _end_of_tag(self, begin: int) -> int | None:
        """The end of an opening tag. Quoted values can contain ">" but not "<"; a malformed tag ends at "<"."""
        at = max(begin, self._searched)
        while (found := _IN_QUOTES[self._quote].search(self._buffer, at)) is not None:
            at = found.end()
            if found.group() == "<":
                return found.start()
            if found.group() == ">":
                return at
            self._quote = "" if self._quote else found.group()
        self._searched = len(self._buffer)
        return None

    def _step(self, mark: re.Match[str], end: int) -> str | LongRecord | None:
        """Move past a mark; return the row if the mark ends one."""
        self._at, self._searched, self._quote = end, 0, ""
        if mark["open"] is not None:
            if self._row is None:
                self._row = mark.start()
            self._depth += not self._buffer.startswith("/>", end - 2)
        elif mark["close"] is not None:
            self._depth -= self._row is not None
        else:
            return None
        if self._row is None or self._depth > 0:
            return None
        row, self._row = self._row_text(self._row, self._at), None
        return row

    def _row_text(self, begin: int, end: int) -> str | LongRecord:
        long, self._long_row = self._long_row, None
        if long is not None:
            return LongRecord(long.offset, self._discarded + end - long.offset, long.prefix)
        if end - begin > self._most:
            return LongRecord(
                self._discarded + begin, end - begin, self._buffer[begin : begin + MAX_PREFIX_BYTES].encode()
            )
        return self._buffer[begin:end]

    def _discard_read(self) -> None:
        """Discard the text before the open row, and text that cannot begin a mark."""
        if not self._mark.match(self._buffer, self._at):
            # Marks contain no "<" inside, so an incomplete one begins at the last "<".
            last = self._buffer.rfind("<", self._at)
            far = len(self._buffer) - last > self._longest_begin
            if last < 0 or (far and not self._begins_close.match(self._buffer, last)):
                last = len(self._buffer)
            self._at = last
        begin_kept = self._at if self._row is None else self._row
        if len(self._buffer) - begin_kept > self._most:
            begin_kept = self._discard_long_row(begin_kept)
        self._discarded += begin_kept
        self._buffer = self._buffer[begin_kept:]
        self._at -= begin_kept
        self._searched = max(self._searched - begin_kept, 0)
        self._row = None if self._row is None else 0

    def _discard_long_row(self, begin: int) -> int:
        """Shorten text that is too long; return where to keep it from. A long row is noted, its end still searched."""
        mark = self._mark.match(self._buffer, self._at)
        opens = mark is not None and mark["open"] is not None
        if self._long_row is None and (self._row is not None or opens):
            self._long_row = LongRecord(
                self._discarded + begin, 0, self._buffer[begin : begin + MAX_PREFIX_BYTES].encode()
            )
        if mark is not None and self._row is None and opens:
            # Do not search the end of such a long tag; the end of its row may still come.
            self._row, self._depth, self._at, self._searched, self._quote = begin, 1, len(self._buffer), 0, ""
        elif mark is not None and mark["close"] is None and len(self._buffer) - self._at > self._most:
            # Keep only the beginning of a comment or similar, and a possible part of its ending.
            shortened = self._buffer[: mark.end()] + ("" if opens else self._buffer[-_LONGEST_END:])
            self._discarded += len(self._buffer) - len(shortened)
            self._buffer, self._searched = shortened, mark.end()
        return self._at
