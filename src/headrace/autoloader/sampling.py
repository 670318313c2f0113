"""The schema of files that are there: from a sample of the newest, as the vendor takes it."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.autoloader.ddl import JsonType, field_of
from headrace.autoloader.inference import csv_struct, finished, json_struct, parquet_struct
from headrace.autoloader.ledger import joined
from headrace.autoloader.options import LoaderOptions
from headrace.autoloader.reading.arrow_types import NoArrowType
from headrace.autoloader.reading.columnar import int96_columns
from headrace.autoloader.reading.csv_blocks import header_of, texts_at_once
from headrace.autoloader.reading.csv_lines import Dialect, is_left_out, values_of
from headrace.autoloader.reading.lines import line_blocks
from headrace.autoloader.reading.partitions import folder_values, same_keys
from headrace.autoloader.reading.plain import FIXED
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.values import Misfit, text_converter, zone_of
from headrace.autoloader.stores.paths import store_of
from headrace.autoloader.tree import Tree

# Of a field of a schema that comes from the folders of files.
PARTITION = "headrace.partition"
# The vendor takes 1,000 files or 50 GB, on a cluster; a schema that lacks a field evolves when it is met.
SAMPLE_FILES = 1000
SAMPLE_BYTES = 1024**3
_MOMENT = pa.timestamp("us", "UTC")
_PARTITION_TYPES = ("integer", "long", "double", "date", "timestamp")


def newest(tree: Tree, now_ns: int, most_files: int = SAMPLE_FILES) -> list[Split]:
    """The files of a tree that were changed last, newest first, each as one part."""
    selection = tree.selection
    found = (
        Split(joined(folder, file.name), file.size, file.mtime_ns, 0, file.size)
        for folder, file in tree.files()
        if selection.admits_time(file.mtime_ns, now_ns)
    )
    return heapq.nlargest(most_files, found, key=lambda split: (split.mtime_ns, split.path))


def inferred(files: Sequence[Split], options: LoaderOptions, most_bytes: int = SAMPLE_BYTES) -> JsonType | None:
    """The columns that the contents of files have; None when there is nothing to tell them from."""
    fixed = FIXED.get(options.file_format)
    if fixed is not None:
        return fixed
    if options.file_format == "parquet":
        struct = parquet_struct(_footers(files))
        return struct if struct["fields"] else None
    encoding = options.format_options.get("encoding") or options.format_options.get("charset") or "utf-8"
    typed = options.infer_types and options.format_options.get("primitivesAsString") != "true"
    if options.file_format == "csv":
        struct = csv_struct(_tables(files, options, encoding, most_bytes))
        return finished(struct, typed=typed, ordered=False) if struct["fields"] else None
    struct = json_struct(_blocks(files, encoding, most_bytes, options), options.format_options)
    return finished(struct, typed=typed) if struct["fields"] else None


def partition_columns(files: Iterable[Split], base: str, options: LoaderOptions, zone: str) -> list[dict[str, Any]]:
    """The columns that the folders of files have, or those that were asked for, marked as such."""
    if options.recursive and options.partition_columns is None:
        return []
    layouts = [folder_values(base, os.path.dirname(file.path)) for file in files]  # noqa: PTH120 - text
    names = options.partition_columns if options.partition_columns is not None else same_keys(layouts)
    columns = []
    for name in names:
        values = {layout[name] for layout in layouts if layout.get(name) is not None}
        kind = _type_of([value for value in values if value is not None], zone) if options.infer_types else "string"
        columns.append({**field_of(name, kind), "metadata": {PARTITION: True}})
    return columns


def _type_of(values: Sequence[str], zone: str) -> str:
    """The first type that all values are of, as Spark infers those of partitions."""
    for kind in _PARTITION_TYPES if values else ():
        convert = text_converter(kind, zone_of(zone))
        try:
            for value in values:
                if convert is not None:
                    convert(value)
        except Misfit:
            continue
        # A year alone would be a date, but whole numbers come first.
        return kind
    return "string"


def _tables(files: Iterable[Split], options: LoaderOptions, encoding: str, most_bytes: int) -> Iterator[pa.Table]:
    """The values of files of CSV as texts, some lines at a time."""
    given = options.format_options
    dialect = Dialect.of(given)
    left = most_bytes
    for file in files:
        try:
            head = header_of(
                file, dialect, given.get("header", "true") == "true", int(given.get("skipRows", "0")), encoding
            )
            lines = head.lines
            for block in line_blocks(file, encoding=encoding):
                text = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                left -= len(text)
                for _ in range(lines):
                    text = text.partition(b"\n")[2]
                lines = 0
                yield _texts(text, head.names, dialect)
                if left <= 0:
                    return
        except (OSError, pa.ArrowException):
            continue


def _texts(block: bytes, names: tuple[str, ...] | None, dialect: Dialect) -> pa.Table:
    if names is None:
        first = next((line for line in block.decode("utf-8", "replace").split("\n") if line.strip()), "")
        names = tuple(f"_c{place}" for place in range(len(values_of(first, dialect)))) if first else ()
    distinct = len(set(names)) == len(names)
    table = texts_at_once(block, names, dialect) if block.strip() and distinct else None
    if table is not None:
        return table
    lines = [line for line in block.decode("utf-8", "replace").split("\n") if not is_left_out(line, dialect)]
    rows = [values_of(line, dialect) for line in lines]
    columns = {
        name: pa.array(
            [row[place] if place < len(row) and row[place] not in ("", dialect.null) else None for row in rows],
            pa.string(),
        )
        for place, name in enumerate(names)
    }
    return pa.table(columns)


def _footers(files: Iterable[Split]) -> Iterator[pa.Schema]:
    for file in files:
        try:
            with store_of(file.path).opened(file.path) as data, pq.ParquetFile(data) as opened:
                old = int96_columns(opened)
                fields = [field.with_type(_MOMENT) if field.name in old else field for field in opened.schema_arrow]
            yield pa.schema(fields)
        except (OSError, pa.ArrowException):
            # Gone, or not to be read: that is for the stream to say when it comes to the file.
            continue


def _blocks(files: Iterable[Split], encoding: str, most_bytes: int, options: LoaderOptions) -> Iterator[bytes]:
    left = most_bytes
    whole = options.format_options.get("multiLine") == "true"
    for file in files:
        try:
            blocks = line_blocks(file, encoding=encoding)
            for block in [b" ".join(b"".join(blocks).splitlines())] if whole else blocks:
                yield block
                left -= len(block)
                if left <= 0:
                    return
        except (OSError, pa.ArrowException, NoArrowType):
            # Gone, or not to be read: that is for the stream to say when it comes to the file.
            continue
