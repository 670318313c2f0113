"""Read sampled files for schema inference: their rows as text, or the schemas that they contain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.autoloader.options import LoaderOptions
from headrace.autoloader.reading.avro.avro_files import avro_columns
from headrace.autoloader.reading.columnar.column_mapping import check_distinct
from headrace.autoloader.reading.columnar.orc import orc_columns
from headrace.autoloader.reading.columnar.parquet import parquet_schema
from headrace.autoloader.reading.conversion.arrow_types import has_spark_type
from headrace.autoloader.reading.csv.blocks import read_header, read_texts
from headrace.autoloader.reading.csv.lines import Dialect, is_skipped
from headrace.autoloader.reading.csv.long_separators import create_parser
from headrace.autoloader.reading.limits import Limits, LongRecord, join_blocks
from headrace.autoloader.reading.lines import line_blocks
from headrace.autoloader.reading.opening import open_file, translating_errors
from headrace.autoloader.reading.xml.texts import xml_texts
from headrace.autoloader.schemas.sampled_files import Sample


def encoding_of(options: LoaderOptions) -> str:
    """The encoding of text files; either option name sets it."""
    return options.format_options.get("encoding") or options.format_options.get("charset") or "utf-8"


def xml_elements(files: Sample, options: LoaderOptions, max_bytes: int) -> Iterator[str]:
    """Yield the row elements of XML files, until *max_bytes* of text were read."""
    given, remaining = options.format_options, max_bytes
    for file in files:
        with files.skipping_unreadable(file.path):
            for text in xml_texts(file.path, given["rowTag"], encoding_of(options), Limits.of(given)):
                if isinstance(text, LongRecord):
                    continue
                yield text
                remaining -= len(text)
                if remaining <= 0:
                    return


def csv_tables(files: Sample, options: LoaderOptions, encoding: str, max_bytes: int) -> Iterator[pa.Table]:
    """Yield the values of CSV files as strings, some lines at a time."""
    given = options.format_options
    dialect = Dialect.of(given)
    remaining = max_bytes
    for file in files:
        with files.skipping_unreadable(file.path):
            head = read_header(
                file, dialect, given.get("header", "true") == "true", int(given.get("skipRows", "0")), encoding
            )
            lines = head.lines
            for block in line_blocks(file, encoding=encoding, limits=Limits.of(given)):
                if isinstance(block, LongRecord):
                    continue
                text = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                remaining -= len(text)
                for _ in range(lines):
                    text = text.partition(b"\n")[2]
                lines = 0
                yield _texts(text, head.names, dialect)
                if remaining <= 0:
                    return


def _texts(block: bytes, names: tuple[str, ...] | None, dialect: Dialect) -> pa.Table:
    if names is None:
        lines = block.decode("utf-8", "replace").split("\n")
        first = next((line for line in lines if not is_skipped(line, dialect)), "")
        names = tuple(f"_c{number}" for number in range(len(create_parser(dialect).values(first)))) if first else ()
    distinct = len(set(names)) == len(names)
    table = read_texts(block, names, dialect) if block.strip() and distinct else None
    if table is not None:
        return table
    lines = [line for line in block.decode("utf-8", "replace").split("\n") if not is_skipped(line, dialect)]
    parser = create_parser(dialect)
    rows = [parser.values(line) for line in lines]
    columns = {
        name: pa.array(
            [row[number] if number < len(row) and row[number] not in ("", dialect.null) else None for row in rows],
            pa.string(),
        )
        for number, name in enumerate(names)
    }
    return pa.table(columns)


def _parquet_columns(path: str) -> pa.Schema:
    with open_file(path) as opened, translating_errors(path, opened), pq.ParquetFile(opened) as file:
        return parquet_schema(file)


# Formats whose files contain their schema.
SELF_DESCRIBING: Mapping[str, Callable[[str], pa.Schema]] = {"avro": avro_columns, "parquet": _parquet_columns}


def file_schemas(files: Sample, options: LoaderOptions) -> Iterator[pa.Schema]:
    """Yield the schema of each file, without columns that Spark has no type for: they are rescued."""
    yield from _schemas(files, SELF_DESCRIBING[options.file_format])


def orc_schemas(files: Sample) -> Iterator[pa.Schema]:
    """Yield the schema of each ORC file, which Auto Loader does not infer columns from."""
    yield from _schemas(files, orc_columns)


def _schemas(files: Sample, read: Callable[[str], pa.Schema]) -> Iterator[pa.Schema]:
    for file in files:
        with files.skipping_unreadable(file.path):
            schema = read(file.path)
            check_distinct(schema, file.path)
            yield pa.schema([field for field in schema if has_spark_type(field.type)])


def json_blocks(files: Sample, encoding: str, max_bytes: int, options: LoaderOptions) -> Iterator[bytes]:
    """Yield blocks of whole records of JSON files, in UTF-8, until *max_bytes* were read."""
    remaining = max_bytes
    multi_line = options.format_options.get("multiLine") == "true"
    limits = Limits.of(options.format_options)
    for file in files:
        with files.skipping_unreadable(file.path):
            blocks = line_blocks(file, encoding=encoding, limits=limits)
            for block in [join_blocks(blocks, limits)] if multi_line else blocks:
                if isinstance(block, LongRecord):
                    continue
                yield b" ".join(block.splitlines()) if multi_line else block
                remaining -= len(block)
                if remaining <= 0:
                    return
