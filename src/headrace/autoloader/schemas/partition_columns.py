"""Infer partition columns from the names of folders, as Spark does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.autoloader.options import LoaderOptions
from headrace.autoloader.reading.conversion.converters import Times, text_converter
from headrace.autoloader.reading.conversion.values import TypeMismatch
from headrace.autoloader.reading.partitions import common_keys, folder_values
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.tree import Tree
from headrace.model.ddl import field_of

# Metadata key of a schema's field that is a partition column.
PARTITION = "headrace.partition"
_ANYTHING = re.compile(r".*", re.DOTALL)
# As in PartitioningUtils.inferPartitionColumnValue: a month is not a date, and a day not a timestamp.
_PARTITION_TYPES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("integer", "long", "double"), _ANYTHING),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "timestamp": re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d+)?"),
}


def partition_columns(files: Iterable[Split], base: str, options: LoaderOptions, zone: str) -> list[dict[str, Any]]:
    """The partition columns: the keys of the folders, or those in the options; marked as partition columns."""
    if options.recursive and options.partition_columns is None:
        return []
    layouts = [folder_values(base, os.path.dirname(file.path)) for file in files]  # noqa: PTH120 - text
    names = options.partition_columns if options.partition_columns is not None else common_keys(layouts)
    columns = []
    for name in names:
        values = {layout[name] for layout in layouts if layout.get(name) is not None}
        kind = _type_of([value for value in values if value is not None], zone) if options.infer_types else "string"
        columns.append({**field_of(name, kind), "metadata": {PARTITION: True}})
    return columns


def partition_names(tree: Tree, options: LoaderOptions) -> set[str]:
    """Partition columns when a schema is given: those in the options, or the keys in the first file's path."""
    if options.partition_columns is not None or options.recursive:
        return set(options.partition_columns or ())
    first = next(tree.files(), None)
    return set() if first is None else set(folder_values(tree.base, first[0]))


def _type_of(values: Sequence[str], zone: str) -> str:
    """The first type that fits all values, as Spark infers partition columns."""
    for kind, pattern in _PARTITION_TYPES.items() if values else ():
        if not all(pattern.fullmatch(value) for value in values):
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
