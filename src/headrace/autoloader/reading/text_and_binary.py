"""Read text files and binary files, whose schema is fixed."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from headrace.autoloader.reading.conversion.arrow_types import arrow_schema
from headrace.autoloader.reading.limits import LongRecord, join_blocks
from headrace.autoloader.reading.lines import line_blocks
from headrace.autoloader.reading.opening import open_file
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.rows import long_record_rows
from headrace.autoloader.reading.splits import Split, modified_at
from headrace.model.ddl import JsonType, struct_of

# The schemas of Spark's sources of these formats.
FIXED: Mapping[str, JsonType] = {
    "text": struct_of([("value", "string")]),
    "binaryFile": struct_of(
        [("path", "string"), ("modificationTime", "timestamp"), ("length", "long"), ("content", "binary")]
    ),
}


def text_lines(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """Yield a row for each line, or with ``wholeText`` one for the file.

    A byte order mark is not part of the first line, as in Hadoop's ``LineRecordReader``.
    """
    options = plan.format_options
    (name,) = (field["name"] for field in plan.data["fields"])
    end = options.get("lineSep")
    blocks = line_blocks(
        split,
        encoding=options.get("encoding") or options.get("charset") or "utf-8",
        limits=plan.limits,
        end=(end or "\n").encode(),
    )
    if options.get("wholeText") == "true":
        blocks = iter([join_blocks(blocks, plan.limits)])
    for number, block in enumerate(blocks):
        if isinstance(block, LongRecord):
            yield from long_record_rows(plan, split.path, block)
            continue
        if options.get("wholeText") == "true":
            yield _lines(name, [block.decode("utf-8", "replace")])
            continue
        begins = number == 0 and split.start == 0
        text = (block.removeprefix(BOM_UTF8) if begins else block).decode("utf-8", "replace")
        if end is None and "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        yield _lines(name, _without_last(text.split(end or "\n")))


def binary_files(plan: ReadPlan, split: Split) -> Iterator[pa.RecordBatch]:
    """Yield one row for the file."""
    del plan
    with open_file(split.path) as file:
        content = file.read()
    row: dict[str, Any] = {
        "path": f"file:{split.path}" if split.path.startswith("/") else split.path,
        "modificationTime": modified_at(split),
        "length": split.size,
        "content": content,
    }
    yield pa.RecordBatch.from_pylist([row], schema=arrow_schema(FIXED["binaryFile"]))


def _without_last(lines: list[str]) -> list[str]:
    """The lines of a text, without the empty one after the last line end."""
    return lines[:-1] if lines[-1] == "" else lines


def _lines(name: str, lines: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=[name])
