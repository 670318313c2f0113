"""Read CSV one block of lines at a time: by Arrow's reader where it gives Spark's result, otherwise line by line.

Columns are identified by the names in a file's header line, or by position if it has none. Arrow reads all columns as
strings, which are then converted column by column. A line is read by itself if it has a misplaced quote, an escape,
another number of values, or a value that does not fit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from headrace.autoloader.reading.bad_records import BadRecords
from headrace.autoloader.reading.conversion.converters import Times, text_converter
from headrace.autoloader.reading.conversion.fitting import Positions
from headrace.autoloader.reading.conversion.utf8 import is_utf8
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.csv.columns import CsvColumns
from headrace.autoloader.reading.csv.lines import Dialect, is_skipped
from headrace.autoloader.reading.csv.long_separators import create_parser
from headrace.autoloader.reading.csv.plain_lines import CsvLines, Flags
from headrace.autoloader.reading.csv.records import CsvRecords
from headrace.autoloader.reading.json_scan import Members
from headrace.autoloader.reading.limits import LongRecord
from headrace.autoloader.reading.lines import line_blocks, parts
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import ReadPlan, UnknownFields, new_columns, reserved_names
from headrace.autoloader.reading.rows import Rows, concat_batches, long_record_rows
from headrace.autoloader.reading.splits import Split

_ROWS = 10_000
_LINE_FEED = 0x0A
_HEAD_BYTES = 64 * 1024
# The lines that Arrow can read are searched in parts of this size.
_PART_BYTES = 512 * 1024
_BOM = b"\xef\xbb\xbf"
# Without multiLine: maximum size of a record over several lines whose parts are recognised.
_MOST_PART_BYTES = 64 * 1024
_PART = "it is a part of a record over several lines, which option multiLine reads as one"
# A blank line, which Spark skips and Arrow reads as a value: the first line, or a later one.
_BLANK_FIRST = re.compile(rb"[\x00-\x09\x0b-\x20]+(?:\n|\Z)")
_BLANK_LATER = re.compile(rb"\n[\x00-\x09\x0b-\x20]+(?:\n|\Z)")


def csv_rows(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split.

    Raises:
        UnknownFields: the header names columns that are not in the schema, and the plan evolves.
        MalformedRecord: a line has a different number of values than the header, and the mode is FAILFAST.
    """
    options = plan.format_options
    dialect = Dialect.of(options)
    encoding = options.get("encoding") or options.get("charset") or "utf-8"
    head = read_header(split, dialect, options.get("header") == "true", int(options.get("skipRows", "0")), encoding)
    skipped_lines = head.lines if split.start == 0 else 0
    with BadRecords.of(plan, split) as bad:
        reader = CsvBlocks(plan, split.path, dialect, head.names, bad)
        if split.start:
            reader.read_preceding(_text_of(_other_split(split, split.start - _MOST_PART_BYTES, split.start), encoding))
        for block in line_blocks(split, encoding=encoding, limits=plan.limits):
            if isinstance(block, LongRecord):
                yield from reader.end("")
                yield from long_record_rows(plan, split.path, block, bad)
                continue
            text = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block
            while skipped_lines and text:
                _, _, text = text.partition(b"\n")
                skipped_lines -= 1
            if text.strip() or reader.has_pending:
                yield from reader.read(text.removeprefix(_BOM))
        if reader.has_pending:
            following = _other_split(split, split.end, split.end + _MOST_PART_BYTES)
            yield from reader.end(_text_of(following, encoding) if split.end < split.size else "")


def _other_split(split: Split, start: int, end: int) -> Split:
    """Another split of the same file."""
    return Split(split.path, split.size, split.mtime_ns, max(start, 0), min(end, split.size))


def _text_of(split: Split, encoding: str) -> str:
    """The lines that begin in a split."""
    blocks = (block for block in line_blocks(split, encoding=encoding) if not isinstance(block, LongRecord))
    text = b"".join(blocks).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text.removesuffix(b"\n").decode("utf-8", "replace")


class Header:
    """The column names in a file's header line, if any, and the number of lines before the rows."""

    def __init__(self, names: tuple[str, ...] | None, lines: int) -> None:
        self.names = names
        self.lines = lines


def read_header(split: Split, dialect: Dialect, named: bool, skipped: int, encoding: str) -> Header:  # noqa: FBT001 - an option
    """Read the header of a file."""
    if not (named or skipped):
        return Header(None, 0)
    lines = 0
    for line in _first_lines(split, encoding):
        lines += 1
        if lines <= skipped:
            continue
        if not named:
            return Header(None, skipped)
        if not is_skipped(line, dialect):
            return Header(_distinct([value or "" for value in create_parser(dialect).values(line)]), lines)
    return Header(() if named else None, lines)


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Append the position to repeated names, as in ``CSVUtils.makeSafeHeader``."""
    times = Counter(names)
    return tuple(
        f"_c{position}" if not name else f"{name}{position}" if times[name] > 1 else name
        for position, name in enumerate(names)
    )


def _first_lines(split: Split, encoding: str) -> Iterator[str]:
    whole_file = Split(split.path, split.size, split.mtime_ns, 0, split.size)
    for number, block in enumerate(line_blocks(whole_file, encoding=encoding, block_bytes=_HEAD_BYTES)):
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
        names: the file's column names in order; None to identify columns by position.
        bad: collects lines that cannot be read, if set.
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
        self._parser = create_parser(dialect)
        self._records = CsvRecords(dialect)
        self._multi_line = plan.format_options.get("multiLine") == "true"
        # Lines of an unfinished record, and how many of them belong to the preceding split.
        self._pending = ""
        self._earlier_lines = 0
        fields = [field for field in plan.data["fields"] if field["name"] != plan.corrupt_column]
        self._names = tuple(field["name"] for field in fields) if names is None else names
        known = {_folded(field["name"], plan): field for field in fields}
        # The schema's field for each value of a line, or None.
        self._fields = [known.get(_folded(name, plan)) for name in self._names]
        times = Times.of(plan.time_zone, plan.format_options)
        self._converters = [field and text_converter(field["type"], times) for field in self._fields]
        everything = {field["name"].casefold() for field in fields} | reserved_names(plan)
        self._unknown = new_columns(plan, (name for name in self._names if name.casefold() not in everything))
        self._columns = CsvColumns(plan, path, dialect, self._fields)
        # With trailing trimming only, a last value of spaces is "" and not NULL.
        trims_as_arrow = dialect.trims_left or not dialect.trims_right
        self._fast = (
            self._columns.is_possible
            and dialect.fits_arrow
            and dialect.comment.isascii()
            and trims_as_arrow
            and len(set(self._names)) == len(self._names)
        )

    def read(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """Read the rows of a block.

        Raises:
            UnknownFields: the file has columns that are not in the schema, and the plan evolves.
            MalformedRecord: a line has a different number of values than the header, and the mode is FAILFAST.
        """
        if self._unknown and self._plan.evolves:
            raise UnknownFields(tuple(self._unknown), self._path)
        if self._pending and not self._earlier_lines:
            block, self._pending = f"{self._pending}\n".encode() + block, ""
        if self._pending or not self._fast:
            yield from self._by_line(block)
            return
        by_lines = self._columns.trims or self._dialect.comment or self._multi_line
        found = None if by_lines else self._by_arrow(block)
        if found is not None and not len(found[1]):
            yield found[0]
            return
        rest = list(parts(block, _PART_BYTES))
        while rest:
            part = rest.pop(0)
            yield from self._by_plain_lines(part)
            if self._pending and rest:
                rest[0] = f"{self._pending}\n".encode() + rest[0]
                self._pending = ""

    def _by_arrow(self, block: bytes) -> tuple[pa.RecordBatch, Positions] | None:
        """Read lines with Arrow; None if it cannot. Returns the rows, and those with a value that may not fit."""
        table = read_texts(block, self._names, self._dialect)
        return None if table is None else self._columns.convert(table)

    def _by_plain_lines(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """Read the plain lines with Arrow, and the others one by one."""
        if self._multi_line and self._dialect.quote.encode() in block:
            batch, size = self._plain_records(block)
            if batch is not None:
                yield batch
            if size >= len(block):
                return
            block = block[size:]
        lines = CsvLines(block, self._dialect, len(self._names))
        numbers = np.flatnonzero(lines.is_plain)
        table = parse_texts(lines.text(lines.is_plain), self._names, self._dialect) if len(numbers) else None
        if table is None or table.num_rows != len(numbers):
            yield from self._by_line(block)
            return
        batch, unfit = self._columns.convert(table)
        skipped = lines.is_skipped | lines.is_plain
        skipped[numbers[unfit]] = False
        others, found = ([], None) if skipped.all() else self._others(lines.lines(), skipped)
        kept = skipped[numbers]
        batch = batch if kept.all() else batch.filter(pa.array(kept))
        if found is not None:
            order = np.argsort(np.concatenate([numbers[kept], others]), kind="stable")
            batch = concat_batches([batch, found]).take(pa.array(order))
        if batch.num_rows:
            yield batch

    def _plain_records(self, block: bytes) -> tuple[pa.RecordBatch | None, int]:
        """Read the plain records at the begin of a block. Returns their rows, if there are any, and their size."""
        records = CsvLines(block, self._dialect, len(self._names), spans_lines=True)
        usable = np.logical_and.accumulate(records.is_plain | records.is_skipped)
        plain = records.is_plain & usable
        text = records.text(plain)
        table = parse_texts(text, self._names, self._dialect, spans_lines=True) if text else None
        if table is None or table.num_rows != plain.sum():
            return None, 0
        batch, unfit = self._columns.convert(table)
        size = int(records.begins[usable.sum()])
        if not len(unfit):
            return batch, size
        kept = np.ones(table.num_rows, dtype=np.bool_)
        kept[unfit] = False
        rows = Rows(self._plan, self._path, self._bad)
        numbers: list[int] = []
        for number in unfit.tolist():
            self._add(records.line(int(np.flatnonzero(plain)[number])), rows)
            numbers += [number] * (len(rows) - len(numbers))
        order = np.argsort(np.concatenate([np.flatnonzero(kept), numbers]), kind="stable")
        return concat_batches([batch.filter(pa.array(kept)), rows.take()]).take(pa.array(order)), size

    @property
    def has_pending(self) -> bool:
        """Whether there are lines of an unfinished record."""
        return bool(self._pending)

    def read_preceding(self, text: str) -> None:
        """Read the lines before the first block: their last record may continue in it."""
        lines = text.split("\n")
        begin: int | None = 0
        while begin is not None and begin < len(lines):
            last, begin = begin, self._records.end(lines, begin)
            if begin is None:
                self._pending, self._earlier_lines = "\n".join(lines[last:]), len(lines) - last

    def end(self, following: str) -> Iterator[pa.RecordBatch]:
        """Read the rows of the unfinished record; the *following* lines show whether it continues.

        Raises:
            MalformedRecord: as for :meth:`read`.
        """
        if not self._pending:
            return
        text, self._pending = self._pending, ""
        last = text.count("\n") + 1
        lines = f"{text}\n{following}".split("\n") if following else text.split("\n")
        yield from self._rows_of(lines, last, complete=True)

    def _by_line(self, block: bytes) -> Iterator[pa.RecordBatch]:
        text = block.decode("utf-8", "replace")
        text, self._pending = (f"{self._pending}\n{text}" if self._pending else text), ""
        lines = text.removesuffix("\n").split("\n")
        yield from self._rows_of(lines, len(lines), complete=False)

    def _others(self, lines: Sequence[str], skipped: Flags) -> tuple[list[int], pa.RecordBatch]:
        """Read the lines that are not *skipped*, and mark in it the other lines that belong to them.

        Returns the line number of each row, and the rows.
        """
        rows, at = Rows(self._plan, self._path, self._bad), 0
        numbers: list[int] = []
        while at < len(lines):
            if skipped[at]:
                following = skipped[at:].argmin()
                if not following:
                    break
                at += int(following)
                continue
            end = self._records.end(lines, at)
            if end is None and self._fits_pending(lines[at:]):
                self._pending = "\n".join(lines[at:])
                skipped[at:] = False
                break
            end = at + 1 if end is None else end
            skipped[at:end] = False
            self._add_record(lines[at:end], rows)
            numbers += [at] * (len(rows) - len(numbers))
            at = end
        return numbers, rows.take()

    def _add_record(self, lines: Sequence[str], rows: Rows) -> None:
        if self._multi_line:
            self._add("\n".join(lines), rows)
        else:
            self._add_parts(lines, rows, parts=len(lines) > 1)

    def _rows_of(self, lines: Sequence[str], last: int, *, complete: bool) -> Iterator[pa.RecordBatch]:
        """Read the rows of lines before *last*; keep an unfinished record for later unless *complete*."""
        rows = Rows(self._plan, self._path, self._bad)
        first, self._earlier_lines, at = self._earlier_lines, 0, 0
        while at < last:
            if is_skipped(lines[at], self._dialect):
                at += 1
                continue
            end = self._records.end(lines, at)
            if end is None and not complete and self._fits_pending(lines[at:]):
                self._pending, self._earlier_lines = "\n".join(lines[at:]), max(first - at, 0)
                break
            end = at + 1 if end is None else end
            if self._multi_line:
                self._add("\n".join(lines[at:end]), rows)
            else:
                self._add_parts(lines[max(at, first) : min(end, last)], rows, parts=end - at > 1)
            at = end
            if len(rows) >= _ROWS:
                yield rows.take()
        if len(rows):
            yield rows.take()

    def _fits_pending(self, lines: Sequence[str]) -> bool:
        """Whether an unfinished record is small enough to wait for more lines."""
        most = self._plan.limits.record_bytes if self._multi_line else _MOST_PART_BYTES
        return sum(map(len, lines)) <= most

    def _add_parts(self, lines: Sequence[str], rows: Rows, *, parts: bool) -> None:
        """Add a row for each line; if the lines are *parts* of a record, each is malformed."""
        for line in lines:
            if not is_skipped(line, self._dialect):
                self._add(line, rows, problem=_PART if parts else "")

    def _add(self, line: str, rows: Rows, *, problem: str = "") -> None:
        values = self._parser.values(line)
        found, rescued, mismatch = {}, Members(), ""
        for name, field, convert, text in zip(self._names, self._fields, self._converters, values, strict=False):
            if text is None or text == self._dialect.null:
                continue
            if field is None or convert is None:
                rescued.append((name, text))
                continue
            try:
                found[field["name"]] = convert(text)
            except TypeMismatch:
                rescued.append((name, text))
                mismatch = mismatch or text
        if len(values) != len(self._names) and not problem:
            problem = f"it has {len(values)} values, and {len(self._names)} are expected"
        if problem:
            rows.add_malformed(line, problem, found, rescued)
        else:
            rows.add(found, rescued, line, mismatch=mismatch)


def read_texts(block: bytes, names: Sequence[str], dialect: Dialect) -> pa.Table | None:
    """Read a block as columns of strings, NULL if empty; None if it must be read line by line."""
    if not names or not dialect.fits_arrow or _BLANK_FIRST.match(block) or _BLANK_LATER.search(block):
        return None
    has_escapes = bool(dialect.escape) and dialect.escape.encode() in block and dialect.escape != dialect.quote
    if has_escapes or not is_utf8(block) or not _quotes_are_plain(block, dialect):
        return None
    return parse_texts(block, names, dialect)


def parse_texts(block: bytes, names: Sequence[str], dialect: Dialect, *, spans_lines: bool = False) -> pa.Table | None:
    """Read plain lines as columns of strings, NULL if empty; None if Arrow refuses them."""
    try:
        return pcsv.read_csv(
            pa.BufferReader(block),
            pcsv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=list(names)),
            pcsv.ParseOptions(
                delimiter=dialect.separator,
                quote_char=dialect.quote,
                double_quote=dialect.escape == dialect.quote,
                newlines_in_values=spans_lines,
            ),
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
    """Whether every quote begins or ends a value on the same line, with nothing to unescape between them."""
    if dialect.quote.encode() not in block:
        return True
    if b"\0" in block or ((dialect.null or not dialect.escape) and 2 * dialect.quote.encode() in block):
        # In quotes, univocity treats some of these specially, and distinguishes an empty value from none.
        return False
    codes = np.frombuffer(block + b"\n", dtype=np.uint8)
    quotes = np.flatnonzero(codes == ord(dialect.quote))
    if len(quotes) % 2:
        return False
    opens, closes = quotes[0::2], quotes[1::2]
    edges = (ord(dialect.separator), _LINE_FEED)
    before = codes[opens - 1]
    begins = (opens == 0) | (before == edges[0]) | (before == edges[1])
    after = codes[closes + 1]
    ends = (after == edges[0]) | (after == edges[1])
    lines = np.flatnonzero(codes == _LINE_FEED)
    same_line = np.searchsorted(lines, opens) == np.searchsorted(lines, closes)
    return bool(begins.all() and ends.all() and same_line.all())


def _folded(name: str, plan: ReadPlan) -> str:
    return name if plan.case_sensitive else name.casefold()
