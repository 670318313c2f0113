"""CSV a block of lines at a time, by Arrow's reader where it reads what Spark would, else line by line.

Columns are known by the names in a file's first line, where it has one, and by their places otherwise. Arrow reads all
of them as text, and the texts are converted at once; a block with a quote where none belongs, an escape, a line of
another number of values, or a value that does not fit is read line by line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from headrace.autoloader.ddl import field_of
from headrace.autoloader.reading.arrow_types import arrow_schema
from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.converters import Times, text_converter
from headrace.autoloader.reading.csv_lines import Dialect, is_left_out
from headrace.autoloader.reading.csv_long_separators import parser_of
from headrace.autoloader.reading.csv_records import CsvRecords
from headrace.autoloader.reading.datetime_columns import NotVectorised
from headrace.autoloader.reading.json_scan import Members
from headrace.autoloader.reading.limits import LongRecord
from headrace.autoloader.reading.lines import line_blocks
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, taken_names
from headrace.autoloader.reading.rows import Rows, too_long
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.text_columns import typed
from headrace.autoloader.reading.values import TypeMismatch

_ROWS = 10_000
_LEAST_BYTES = 64 * 1024
_PARTS = 8
_BOM = b"\xef\xbb\xbf"
_LINE_FEED = 0x0A
# How long a record may be whose parts are found, where a record is a line.
_MOST_PART_BYTES = 64 * 1024
_PART = "it is a part of a record over several lines, which option multiLine reads as one"
# A line that Spark passes over, and Arrow takes for a value: the first one, or another.
_BLANK_FIRST = re.compile(rb"[\x00-\x09\x0b-\x20]+(?:\n|\Z)")
_BLANK_LATER = re.compile(rb"\n[\x00-\x09\x0b-\x20]+(?:\n|\Z)")


def csv_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a part of a file.

    Raises:
        UnknownFields: its first line names columns that the schema lacks, and the stream is to end with that.
        MalformedRecord: a line has another number of values than the first, and the mode is FAILFAST.
    """
    options = plan.format_options
    dialect = Dialect.of(options)
    encoding = options.get("encoding") or options.get("charset") or "utf-8"
    head = header_of(split, dialect, options.get("header") == "true", int(options.get("skipRows", "0")), encoding)
    left = head.lines if split.start == 0 else 0
    with BadRecords.of(plan, split) as bad:
        reader = CsvBlocks(plan, split.path, dialect, head.names, bad)
        if split.start:
            reader.look_back(_text_of(_around(split, split.start - _MOST_PART_BYTES, split.start), encoding))
        for block in line_blocks(split, encoding=encoding, limits=plan.limits):
            if isinstance(block, LongRecord):
                yield from reader.end("")
                yield from too_long(plan, split.path, block, bad)
                continue
            text = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block
            while left and text:
                _, _, text = text.partition(b"\n")
                left -= 1
            if text.strip() or reader.is_open:
                yield from reader.read(text.removeprefix(_BOM))
        if reader.is_open:
            following = _around(split, split.end, split.end + _MOST_PART_BYTES)
            yield from reader.end(_text_of(following, encoding) if split.end < split.size else "")


def _around(split: Split, start: int, end: int) -> Split:
    """Another part of the same file."""
    return Split(split.path, split.size, split.mtime_ns, max(start, 0), min(end, split.size))


def _text_of(split: Split, encoding: str) -> str:
    """The lines that begin in a part of a file."""
    blocks = (block for block in line_blocks(split, encoding=encoding) if not isinstance(block, LongRecord))
    text = b"".join(blocks).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text.removesuffix(b"\n").decode("utf-8", "replace")


class Header:
    """The names of a file's columns, where its first line says them, and how many lines come before the rows."""

    def __init__(self, names: tuple[str, ...] | None, lines: int) -> None:
        self.names = names
        self.lines = lines


def header_of(split: Split, dialect: Dialect, named: bool, skipped: int, encoding: str) -> Header:  # noqa: FBT001 - an option
    """What comes before the rows of a file."""
    if not (named or skipped):
        return Header(None, 0)
    lines = 0
    for line in _first_lines(split, encoding):
        lines += 1
        if lines <= skipped:
            continue
        if not named:
            return Header(None, skipped)
        if not is_left_out(line, dialect):
            return Header(_distinct([value or "" for value in parser_of(dialect).values(line)]), lines)
    return Header(() if named else None, lines)


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names with their place behind them where they are repeated, as ``CSVUtils.makeSafeHeader`` has it."""
    times = Counter(names)
    return tuple(
        f"_c{place}" if not name else f"{name}{place}" if times[name] > 1 else name for place, name in enumerate(names)
    )


def _first_lines(split: Split, encoding: str) -> Iterator[str]:
    whole = Split(split.path, split.size, split.mtime_ns, 0, split.size)
    for number, block in enumerate(line_blocks(whole, encoding=encoding, block_bytes=_LEAST_BYTES)):
        if isinstance(block, LongRecord):
            raise CorruptFile(f"{split.path} cannot be read: {block.reason}, and it should name the columns")
        text = (block.removeprefix(_BOM) if number == 0 else block).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        yield from text.removesuffix(b"\n").decode("utf-8", "replace").split("\n")


class CsvBlocks:
    """Reads blocks of whole lines of one file.

    Args:
        plan: the columns to make.
        path: the file.
        dialect: how values are separated and quoted.
        names: of the file's columns in order; None where they are known by their places.
        bad: where lines go that cannot be read, if anywhere.
    """

    def __init__(
        self,
        plan: ReadPlan,
        path: str,
        dialect: Dialect,
        names: tuple[str, ...] | None,
        bad: BadRecords | None = None,
    ) -> None:
        self._plan = plan
        self._path = path
        self._bad = bad
        self._dialect = dialect
        self._parser = parser_of(dialect)
        self._records = CsvRecords(dialect)
        self._joins = plan.format_options.get("multiLine") == "true"
        # Lines whose record may go on, and how many of them are of the part of the file before.
        self._open = ""
        self._earlier = 0
        fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        self._names = tuple(field["name"] for field in fields) if names is None else names
        known = {_folded(field["name"], plan): field for field in fields}
        # For each value of a line the column that it is of, or None.
        self._fields = [known.get(_folded(name, plan)) for name in self._names]
        times = Times.of(plan.time_zone, plan.format_options)
        self._converters = [field and text_converter(field["type"], times) for field in self._fields]
        everything = {field["name"].casefold() for field in fields} | taken_names(plan)
        self._unknown = new_columns(plan, (name for name in self._names if name.casefold() not in everything))
        self._fast = (
            dialect.fits_arrow
            and not (dialect.comment or dialect.trims_left or dialect.trims_right)
            and all(field and field["type"] not in times.patterns for field in self._fields)
            and len(set(self._names)) == len(self._names)
        )

    def read(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of a block.

        Raises:
            UnknownFields: the file has columns that the schema lacks, and the stream is to end with that.
            MalformedRecord: a line has another number of values than the first, and the mode is FAILFAST.
        """
        if self._unknown and self._plan.evolves:
            raise UnknownFields(tuple(self._unknown), self._path)
        if self._open:
            yield from self._by_line(block)
            return
        batch = self._by_arrow(block) if self._fast else None
        if batch is not None:
            yield batch
        elif self._fast and len(block) > _LEAST_BYTES and b"\n" in block[len(block) // _PARTS : -1]:
            begin, step = 0, len(block) // _PARTS
            while begin < len(block):
                end = block.find(b"\n", begin + step) + 1 or len(block)
                yield from self.read(block[begin:end])
                begin = end
        else:
            yield from self._by_line(block)

    def _by_arrow(self, block: bytes) -> pa.RecordBatch | None:
        table = texts_at_once(block, self._names, self._dialect)
        if table is None:
            return None
        made = {}
        for field, column in zip(self._fields, table.columns, strict=True):
            assert field is not None  # noqa: S101 - else nothing is read at once
            try:
                made[field["name"]] = typed(column.combine_chunks(), field["type"], self._plan.time_zone)
            except NotVectorised:
                return None
        return self._batch(made, table.num_rows)

    def _batch(self, made: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        fields = list(self._plan.data["fields"])
        names = {field["name"] for field in fields}
        extra = [name for name in (self._plan.corrupt_column, self._plan.rescued_column) if name and name not in names]
        schema = arrow_schema({"type": "struct", "fields": [*fields, *(field_of(name, "string") for name in extra)]})
        columns = [made.get(field.name, pa.nulls(count, field.type)) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    @property
    def is_open(self) -> bool:
        """Whether there are lines whose record may go on."""
        return bool(self._open)

    def look_back(self, text: str) -> None:
        """Take note of the lines before the first block: the record of the last ones may go on in it."""
        lines = text.split("\n")
        begin: int | None = 0
        while begin is not None and begin < len(lines):
            last, begin = begin, self._records.end(lines, begin)
            if begin is None:
                self._open, self._earlier = "\n".join(lines[last:]), len(lines) - last

    def end(self, following: str) -> Iterator[pa.RecordBatch]:
        """The rows of the lines whose record may go on; the lines that are *following* say whether it does.

        Raises:
            MalformedRecord: as for :meth:`read`.
        """
        if not self._open:
            return
        text, self._open = self._open, ""
        last = text.count("\n") + 1
        lines = f"{text}\n{following}".split("\n") if following else text.split("\n")
        yield from self._rows_of(lines, last, complete=True)

    def _by_line(self, block: bytes) -> Iterator[pa.RecordBatch]:
        text = block.decode("utf-8", "replace")
        text, self._open = (f"{self._open}\n{text}" if self._open else text), ""
        lines = text.removesuffix("\n").split("\n")
        yield from self._rows_of(lines, len(lines), complete=False)

    def _rows_of(self, lines: Sequence[str], last: int, *, complete: bool) -> Iterator[pa.RecordBatch]:
        """The rows of lines before the *last* one; those that may go on are kept unless these are *complete*."""
        rows = Rows(self._plan, self._path, self._bad)
        first, self._earlier, at = self._earlier, 0, 0
        while at < last:
            if is_left_out(lines[at], self._dialect):
                at += 1
                continue
            end = self._records.end(lines, at)
            if end is None and not complete and self._may_wait(lines[at:]):
                self._open, self._earlier = "\n".join(lines[at:]), max(first - at, 0)
                break
            end = at + 1 if end is None else end
            if self._joins:
                self._add("\n".join(lines[at:end]), rows)
            else:
                self._add_parts(lines[max(at, first) : min(end, last)], rows, parts=end - at > 1)
            at = end
            if len(rows) >= _ROWS:
                yield rows.take()
        if len(rows):
            yield rows.take()

    def _may_wait(self, lines: Sequence[str]) -> bool:
        """Whether lines whose record may go on are kept until more of them are there."""
        most = self._plan.limits.record_bytes if self._joins else _MOST_PART_BYTES
        return sum(map(len, lines)) <= most

    def _add_parts(self, lines: Sequence[str], rows: Rows, *, parts: bool) -> None:
        """A row of each line; where they are *parts* of a record, each is one that cannot be read."""
        for line in lines:
            if not is_left_out(line, self._dialect):
                self._add(line, rows, problem=_PART if parts else "")

    def _add(self, line: str, rows: Rows, *, problem: str = "") -> None:
        values = self._parser.values(line)
        found, left, misfit = {}, Members(), ""
        for name, field, convert, text in zip(self._names, self._fields, self._converters, values, strict=False):
            if text is None or text == self._dialect.null:
                continue
            if field is None or convert is None:
                left.append((name, text))
                continue
            try:
                found[field["name"]] = convert(text)
            except TypeMismatch:
                left.append((name, text))
                misfit = misfit or text
        if len(values) != len(self._names) and not problem:
            problem = f"it has {len(values)} values, and {len(self._names)} are expected"
        if problem:
            rows.add_malformed(line, problem, found, left)
        else:
            rows.add(found, left, line, misfit=misfit)


def texts_at_once(block: bytes, names: Sequence[str], dialect: Dialect) -> pa.Table | None:
    """The values of a block as columns of text, NULL where they are empty; None when it is to be read line by line."""
    if (
        not names
        or not dialect.fits_arrow
        or (dialect.escape and dialect.escape.encode() in block and dialect.escape != dialect.quote)
    ):
        return None
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError:
            return None
    if not _quotes_are_plain(block, dialect) or _BLANK_FIRST.match(block) or _BLANK_LATER.search(block):
        return None
    try:
        return pcsv.read_csv(
            pa.BufferReader(block),
            pcsv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=list(names)),
            pcsv.ParseOptions(delimiter=dialect.separator, quote_char=dialect.quote, double_quote=False),
            pcsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=list({"", dialect.null}),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        return None


def _quotes_are_plain(block: bytes, dialect: Dialect) -> bool:
    """Whether each quote begins or ends a value, and what is in quotes is the value, on one line."""
    if dialect.quote.encode() not in block:
        return True
    if b"\0" in block or ((dialect.null or not dialect.escape) and 2 * dialect.quote.encode() in block):
        # Of what is in quotes, univocity takes some of these for marks of its own, and nothing for something.
        return False
    letters = np.frombuffer(block + b"\n", dtype=np.uint8)
    quotes = np.flatnonzero(letters == ord(dialect.quote))
    if len(quotes) % 2:
        return False
    opens, closes = quotes[0::2], quotes[1::2]
    edges = (ord(dialect.separator), _LINE_FEED)
    before = letters[opens - 1]
    begins = (opens == 0) | (before == edges[0]) | (before == edges[1])
    after = letters[closes + 1]
    ends = (after == edges[0]) | (after == edges[1])
    lines = np.flatnonzero(letters == _LINE_FEED)
    same_line = np.searchsorted(lines, opens) == np.searchsorted(lines, closes)
    return bool(begins.all() and ends.all() and same_line.all())


def _folded(name: str, plan: ReadPlan) -> str:
    return name if plan.case_sensitive else name.casefold()
