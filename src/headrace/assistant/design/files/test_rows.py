"""Rows that generated tests give to a dataset: simple columns only, at times that the test chooses."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from headrace.assistant.design.blueprint import Blueprint, Dataset
from headrace.assistant.design.files.hints import Hint
from headrace.assistant.design.files.python_text import WIDTH, literal
from headrace.assistant.design.files.sample_rows import START, Row, sample_columns, time_text, value_of
from headrace.assistant.design.requirements import Column

# Types that JSON cannot give to a table as they are.
_LEFT_OUT = ("binary", "variant")


def given_row(dataset: Dataset, blueprint: Blueprint, number: int, /, **values: Any) -> Row:
    """A row of a dataset with a number; *values* replace columns. Nested columns are left out, so they are null."""
    samples = sample_columns(dataset.source, blueprint)
    row = samples.row(number)
    found = {}
    for column in dataset.columns:
        if isinstance(column.type, dict) or column.type in _LEFT_OUT or column.name.startswith("__"):
            continue
        own = row.get(column.name)
        found[column.name] = own if own is not None else _value(column, number)
    return {**found, **values}


@dataclass(frozen=True)
class GivenRows:
    """Makes rows for the inputs of datasets.

    Attributes:
        blueprint: the datasets.
        delay_s: the delay of watermarks, in seconds.
    """

    blueprint: Blueprint
    delay_s: float

    def input(self, dataset: Dataset, position: int = 0) -> Dataset:
        """An input of a dataset."""
        return self.blueprint.dataset(dataset.reads[position])

    def row(self, dataset: Dataset, number: int, position: int = 0, /, **values: Any) -> Row:
        """A row with a number for an input of a dataset."""
        return given_row(self.input(dataset, position), self.blueprint, number, **values)


def row_text(row: Row, depth: int = 1) -> str:
    """A row as a dictionary of Python, on one line if it fits."""
    line = literal(row)
    if len(line) + 4 * depth <= WIDTH:
        return line
    inner = "\n".join(f"{'    ' * (depth + 1)}{literal(key)}: {literal(value)}," for key, value in row.items())
    return f"{{\n{inner}\n{'    ' * depth}}}"


def constants(**values: Any) -> str:
    """Rows, and lists of rows, as constants of a module."""
    return "\n".join(f"{name} = {_constant(value)}" for name, value in values.items())


def _constant(value: Any) -> str:
    if isinstance(value, list):
        return "[\n" + "".join(f"    {row_text(row)},\n" for row in value) + "]"
    return row_text(value, 0)


def aligned_s(length_s: float) -> float:
    """Seconds after the first sample event at which a window of that length starts."""
    start = START.timestamp()
    return ceil(start / length_s) * length_s - start


def ordered_value(column: Column | None, order: int) -> Any:
    """A value of a column that orders changes; greater for a greater order."""
    if column is None or column.type in ("timestamp", "timestamp_ntz"):
        text = time_text(60.0 * order)
        return text.removesuffix("Z") if column is not None and column.type == "timestamp_ntz" else text
    if column.type == "date":
        return value_of("date", "", order, Hint())
    return f"{order:04}" if column.type == "string" else order


def _value(column: Column, number: int) -> Any:
    return None if column.type is None else value_of(column.type, column.name.casefold(), number, Hint())
