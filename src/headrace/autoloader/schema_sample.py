"""The schema of files that are there: from a sample of the newest, as the vendor takes it."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.autoloader.ddl import JsonType, field_of
from headrace.autoloader.inference import JsonKinds, csv_struct, finished, json_struct, parquet_struct
from headrace.autoloader.ledger import joined
from headrace.autoloader.options import LoaderOptions
from headrace.autoloader.reading.arrow_types import has_spark_type
from headrace.autoloader.reading.avro import avro_columns
from headrace.autoloader.reading.avro_schema import avro_shape
from headrace.autoloader.reading.columnar import check_distinct
from headrace.autoloader.reading.converters import Times, text_converter
from headrace.autoloader.reading.csv_blocks import header_of, texts_at_once
from headrace.autoloader.reading.csv_lines import Dialect, is_left_out
from headrace.autoloader.reading.csv_long_separators import parser_of
from headrace.autoloader.reading.limits import Limits, LongRecord, whole
from headrace.autoloader.reading.lines import line_blocks
from headrace.autoloader.reading.opening import CorruptFile, UnreadCompression, judging, open_file
from headrace.autoloader.reading.parquet import parquet_schema
from headrace.autoloader.reading.partitions import folder_values, same_keys
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.text_and_binary import FIXED
from headrace.autoloader.reading.text_columns import CsvKinds
from headrace.autoloader.reading.values import TypeMismatch
from headrace.autoloader.reading.xml_elements import XmlNames
from headrace.autoloader.reading.xml_texts import xml_texts
from headrace.autoloader.storable_columns import storable
from headrace.autoloader.tree import Tree
from headrace.autoloader.xml_inference import XmlKinds, xml_struct
from headrace.errors import PipelineError

# Of a field of a schema that comes from the folders of files.
PARTITION = "headrace.partition"
# The vendor takes 1,000 files or 50 GB, on a cluster; a schema that lacks a field evolves when it is met.
SAMPLE_FILES = 1000
SAMPLE_BYTES = 1024**3
# What a file stays until somebody changes it; the errors of stores of objects have no kinds, and may pass.
_LASTING = (PermissionError, IsADirectoryError, UnreadCompression)
_ANYTHING = re.compile(r".*", re.DOTALL)
# As PartitioningUtils.inferPartitionColumnValue has them: a month is no date, and a day no time.
_PARTITION_TYPES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("integer", "long", "double"), _ANYTHING),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "timestamp": re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d+)?"),
}


def newest(tree: Tree, now_ns: int, most_files: int = SAMPLE_FILES) -> list[Split]:
    """The files of a tree that were changed last, newest first, each as one part."""
    selection = tree.selection
    found = (
        Split(joined(folder, file.name), file.size, file.mtime_ns, 0, file.size)
        for folder, file in tree.files()
        if selection.admits_time(file.mtime_ns, now_ns)
    )
    return heapq.nlargest(most_files, found, key=lambda split: (split.mtime_ns, split.path))


class Sample:
    """Files that a schema is inferred from, and what was wrong with those that cannot be read."""

    def __init__(self, files: Sequence[Split]) -> None:
        self._files = files
        self.corrupt: list[tuple[str, str]] = []

    def __iter__(self) -> Iterator[Split]:
        return iter(self._files)

    @contextmanager
    def reading(self, path: str) -> Iterator[None]:
        """Passes over a file that has gone, or whose contents cannot be read: the stream says so when it comes to it.

        Raises:
            PipelineError: ``AUTO_LOADER.SAMPLE``: it cannot be had, which says nothing of the columns that it has;
                ``AUTO_LOADER.SAMPLE_BROKEN_OFF``: its store does not give it now.
        """
        try:
            yield
        except FileNotFoundError:
            return
        except CorruptFile as error:
            self.corrupt.append((path, str(error).rstrip(".")))
        except OSError as error:
            code = "AUTO_LOADER.SAMPLE" if isinstance(error, _LASTING) else "AUTO_LOADER.SAMPLE_BROKEN_OFF"
            raise PipelineError(code, path=path, reason=str(error).rstrip(".")) from error


def inferred(
    files: Sample | Sequence[Split],
    options: LoaderOptions,
    zone: str = "UTC",
    *,
    most_bytes: int = SAMPLE_BYTES,
    plain: bool = False,
) -> JsonType | None:
    """The columns that the contents of files have; None when there is nothing to tell them from.

    What no table can have is left out; *plain* means one that maps no names of columns.

    Raises:
        PipelineError: ``AUTO_LOADER.FILE_COLUMN``: a file has two columns of one name; ``AUTO_LOADER.NOT_INFERRED``: of
            ORC, where there are no hints either; ``AUTO_LOADER.SAMPLE``, ``AUTO_LOADER.SAMPLE_BROKEN_OFF``: a file is
            there and cannot be had, at all or now.
    """
    fixed = FIXED.get(options.file_format)
    if fixed is not None:
        return fixed
    if options.file_format == "orc":
        if not options.hints:
            raise PipelineError("AUTO_LOADER.NOT_INFERRED", format=options.file_format)
        return {"type": "struct", "fields": []}
    files = files if isinstance(files, Sample) else Sample(files)
    if options.file_format in _COLUMNS:
        avro = options.format_options.get("avroSchema")
        struct = parquet_struct([avro_shape(avro).columns] if avro else _columns_of(files, options))
        struct = storable(struct, as_text=False, plain=plain)
        return struct if struct["fields"] else None
    typed = options.infer_types and options.format_options.get("primitivesAsString") != "true"
    struct = _INFERRED[options.file_format](files, options, options.time_zone or zone, typed, most_bytes)
    if not struct["fields"]:
        return None
    # The columns of CSV have an order; fields of JSON and XML have names alone.
    struct = finished(struct, typed=typed, ordered=options.file_format != "csv")
    struct = storable(struct, as_text=True, plain=plain)
    return struct if struct["fields"] else None


def _of_csv(files: Sample, options: LoaderOptions, zone: str, typed: bool, most_bytes: int) -> JsonType:  # noqa: FBT001 - as the others
    given = options.format_options
    guess = CsvKinds(Times.of(zone, given), dates=given.get("preferDate") != "false").of if typed else _text
    return csv_struct(_tables(files, options, _encoding(options), most_bytes), guess)


def _of_json(files: Sample, options: LoaderOptions, zone: str, typed: bool, most_bytes: int) -> JsonType:  # noqa: FBT001 - as the others
    kinds = JsonKinds.of(options.format_options, zone) if typed else JsonKinds()
    return json_struct(_blocks(files, _encoding(options), most_bytes, options), options.format_options, kinds)


def _of_xml(files: Sample, options: LoaderOptions, zone: str, typed: bool, most_bytes: int) -> JsonType:  # noqa: FBT001 - as the others
    given = options.format_options
    decimals, dates = given.get("prefersDecimal") == "true", given.get("preferDate") != "false"
    kinds = XmlKinds(Times.of(zone, given), decimals=decimals, dates=dates) if typed else None
    return xml_struct(_elements(files, options, most_bytes), XmlNames.of(given), kinds)


_INFERRED: Mapping[str, Callable[[Sample, LoaderOptions, str, bool, int], JsonType]] = {
    "csv": _of_csv,
    "json": _of_json,
    "xml": _of_xml,
}


def _encoding(options: LoaderOptions) -> str:
    return options.format_options.get("encoding") or options.format_options.get("charset") or "utf-8"


def _text(values: pa.Array) -> str:
    del values
    return "string"


def _elements(files: Sample, options: LoaderOptions, most_bytes: int) -> Iterator[str]:
    given, left = options.format_options, most_bytes
    for file in files:
        with files.reading(file.path):
            for text in xml_texts(file.path, given["rowTag"], _encoding(options), Limits.of(given)):
                if isinstance(text, LongRecord):
                    continue
                yield text
                left -= len(text)
                if left <= 0:
                    return


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
    for kind, form in _PARTITION_TYPES.items() if values else ():
        if not all(form.fullmatch(value) for value in values):
            continue
        convert = text_converter(kind, Times.of(zone, {}))
        try:
            for value in values:
                if convert is not None:
                    convert(value)
        except TypeMismatch:
            continue
        return kind
    return "string"


def _tables(files: Sample, options: LoaderOptions, encoding: str, most_bytes: int) -> Iterator[pa.Table]:
    """The values of files of CSV as texts, some lines at a time."""
    given = options.format_options
    dialect = Dialect.of(given)
    left = most_bytes
    for file in files:
        with files.reading(file.path):
            head = header_of(
                file, dialect, given.get("header", "true") == "true", int(given.get("skipRows", "0")), encoding
            )
            lines = head.lines
            for block in line_blocks(file, encoding=encoding, limits=Limits.of(given)):
                if isinstance(block, LongRecord):
                    continue
                text = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                left -= len(text)
                for _ in range(lines):
                    text = text.partition(b"\n")[2]
                lines = 0
                yield _texts(text, head.names, dialect)
                if left <= 0:
                    return


def _texts(block: bytes, names: tuple[str, ...] | None, dialect: Dialect) -> pa.Table:
    if names is None:
        lines = block.decode("utf-8", "replace").split("\n")
        first = next((line for line in lines if not is_left_out(line, dialect)), "")
        names = tuple(f"_c{place}" for place in range(len(parser_of(dialect).values(first)))) if first else ()
    distinct = len(set(names)) == len(names)
    table = texts_at_once(block, names, dialect) if block.strip() and distinct else None
    if table is not None:
        return table
    lines = [line for line in block.decode("utf-8", "replace").split("\n") if not is_left_out(line, dialect)]
    parser = parser_of(dialect)
    rows = [parser.values(line) for line in lines]
    columns = {
        name: pa.array(
            [row[place] if place < len(row) and row[place] not in ("", dialect.null) else None for row in rows],
            pa.string(),
        )
        for place, name in enumerate(names)
    }
    return pa.table(columns)


def _parquet_columns(path: str) -> pa.Schema:
    with open_file(path) as opened, judging(path, opened), pq.ParquetFile(opened) as file:
        return parquet_schema(file)


# Formats whose files say what their columns are.
_COLUMNS: Mapping[str, Callable[[str], pa.Schema]] = {"avro": avro_columns, "parquet": _parquet_columns}


def _columns_of(files: Sample, options: LoaderOptions) -> Iterator[pa.Schema]:
    """The columns of each file, without those that Spark has no type for: they are rescued."""
    for file in files:
        with files.reading(file.path):
            schema = _COLUMNS[options.file_format](file.path)
            check_distinct(schema, file.path)
            yield pa.schema([field for field in schema if has_spark_type(field.type)])


def _blocks(files: Sample, encoding: str, most_bytes: int, options: LoaderOptions) -> Iterator[bytes]:
    left = most_bytes
    multi_line = options.format_options.get("multiLine") == "true"
    limits = Limits.of(options.format_options)
    for file in files:
        with files.reading(file.path):
            blocks = line_blocks(file, encoding=encoding, limits=limits)
            for block in [whole(blocks, limits)] if multi_line else blocks:
                if isinstance(block, LongRecord):
                    continue
                yield b" ".join(block.splitlines()) if multi_line else block
                left -= len(block)
                if left <= 0:
                    return
