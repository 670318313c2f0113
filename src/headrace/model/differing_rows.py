"""Compares two lists of rows, as multisets or by a key; what :mod:`headrace.spark.comparison` does, in memory.

First, equal rows of the two sides cancel out, each with one of the other side. What is left is matched by the key.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from headrace.model.rows import instant_text, json_value
from headrace.model.table_diff import Example, ExampleKind

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class DifferingRows:
    """The rows that differ.

    Attributes:
        changed: keys with one differing row on each side.
        only_first: other rows of the first side.
        only_second: other rows of the second side.
        repeated_keys: keys with several differing rows on a side.
        columns: by position, in how many changed rows each column differs.
        examples: of each kind, the first ones by key.
    """

    changed: int
    only_first: int
    only_second: int
    repeated_keys: int
    columns: Mapping[int, int]
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class _Group:
    """The differing rows of one key: how many each side has, and one row of each."""

    key: Row
    counts: tuple[int, int]
    rows: tuple[Row | None, Row | None]

    @property
    def is_changed(self) -> bool:
        return self.counts == (1, 1)

    @property
    def is_repeated(self) -> bool:
        return max(self.counts) > 1


def differing_rows(
    first: Iterable[Row], second: Iterable[Row], names: Sequence[str], key: Sequence[int], examples: int
) -> DifferingRows:
    """Compare rows of atomic values. NaN equals itself, the two zeros are equal, and NULL equals NULL.

    Args:
        first: the rows of the first side; times without a zone are those of this machine.
        second: the rows of the second side.
        names: of the columns.
        key: the positions of the key's columns; empty to compare whole rows.
        examples: the maximum number of examples of each kind.
    """
    sides = [Counter(map(_comparable, rows)) for rows in (first, second)]
    left = (sides[0] - sides[1], sides[1] - sides[0])
    return _by_key(left, names, key, examples) if key else _unkeyed(left, names, examples)


def _unkeyed(left: Sequence[Counter[Row]], names: Sequence[str], examples: int) -> DifferingRows:
    found: list[Example] = []
    everything = range(len(names))
    for side, kind in enumerate((ExampleKind.ONLY_FIRST, ExampleKind.ONLY_SECOND)):
        for row in sorted(left[side], key=_order)[:examples]:
            counts = (left[0][row], left[1][row])
            found.append(Example(kind, {}, **{_SIDES[side]: _shown(row, names, everything)}, rows=counts))
    return DifferingRows(0, left[0].total(), left[1].total(), 0, {}, tuple(found))


_SIDES = ("first", "second")


def _by_key(left: Sequence[Counter[Row]], names: Sequence[str], key: Sequence[int], examples: int) -> DifferingRows:
    values = [number for number in range(len(names)) if number not in key]
    groups = sorted(_groups(left, key), key=lambda group: _order(group.key))
    differing = [_differing(group, values) for group in groups if group.is_changed]
    changed = len(differing)
    columns = Counter(number for numbers in differing for number in numbers)
    return DifferingRows(
        changed,
        left[0].total() - changed,
        left[1].total() - changed,
        sum(group.is_repeated for group in groups),
        dict(columns),
        tuple(_examples(groups, names, key, values, examples)),
    )


def _groups(left: Sequence[Counter[Row]], key: Sequence[int]) -> Iterator[_Group]:
    counts: dict[Row, list[int]] = {}
    rows: dict[Row, list[Row | None]] = {}
    for side, one in enumerate(left):
        for row, count in one.items():
            of = tuple(row[number] for number in key)
            counts.setdefault(of, [0, 0])[side] += count
            rows.setdefault(of, [None, None])[side] = row
    for of, found in counts.items():
        yield _Group(of, (found[0], found[1]), (rows[of][0], rows[of][1]))


def _differing(group: _Group, values: Sequence[int]) -> list[int]:
    """The positions at which the two rows of a group differ."""
    before, after = group.rows
    if before is None or after is None:
        return []
    # NaN is one object here, so that it is itself.
    return [number for number in values if before[number] is not after[number] and before[number] != after[number]]


def _examples(
    groups: Sequence[_Group], names: Sequence[str], key: Sequence[int], values: Sequence[int], most: int
) -> Iterator[Example]:
    kinds: Mapping[ExampleKind, Callable[[_Group], bool]] = {
        ExampleKind.CHANGED: lambda group: group.is_changed,
        ExampleKind.ONLY_FIRST: lambda group: group.counts == (1, 0),
        ExampleKind.ONLY_SECOND: lambda group: group.counts == (0, 1),
        ExampleKind.REPEATED_KEY: lambda group: group.is_repeated,
    }
    for kind, is_one in kinds.items():
        for group in [group for group in groups if is_one(group)][:most]:
            numbers = _differing(group, values) if kind is ExampleKind.CHANGED else values
            rows = (None, None) if kind is ExampleKind.REPEATED_KEY else group.rows
            first, second = ({} if row is None else _shown(row, names, numbers) for row in rows)
            of = {names[number]: _json(value) for number, value in zip(key, group.key, strict=True)}
            yield Example(kind, of, first, second, group.counts)


def _shown(row: Row, names: Sequence[str], numbers: Iterable[int]) -> dict[str, Any]:
    return {names[number]: _json(row[number]) for number in numbers}


def _json(value: Any) -> Any:
    return instant_text(value) if isinstance(value, datetime) else json_value(value)


def _comparable(row: Row) -> Row:
    return tuple(map(_value, row))


def _value(value: Any) -> Any:
    if _is_nan(value):
        return math.nan
    # Two times of the hour that comes twice differ only by their fold, which a comparison of them ignores.
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _order(row: Row) -> tuple[Any, ...]:
    """The order of rows: NULL before the values, and NaN after them."""
    return tuple((0,) if value is None else (2,) if _is_nan(value) else (1, value) for value in row)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
