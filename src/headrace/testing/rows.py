"""Compares rows cell by cell, and shows a readable difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

Row = dict[str, Any]

_SHOWN = 20
_ABSENT = "(no such column)"


class SortedRows(list[Row]):
    """Rows in a stable order: by their columns from the left, nulls first."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        super().__init__(sorted(rows, key=sort_key))


def assert_rows(actual: Any, expected: Any, *, ordered: bool = False, key: Sequence[str] = ()) -> None:
    """Raise an AssertionError with the cells that differ, unless both contain the same rows equally often.

    Args:
        actual: a DataFrame, dictionaries, or Spark rows.
        expected: likewise.
        ordered: whether the order counts.
        key: columns that match rows with each other (default: matches the most similar rows).
    """
    __tracebackhide__ = True
    text = difference(actual, expected, ordered=ordered, key=key)
    if text:
        raise AssertionError(text)


def difference(actual: Any, expected: Any, *, ordered: bool = False, key: Sequence[str] = ()) -> str:
    """The difference as text, empty if there is none; arguments as in :func:`assert_rows`."""
    have, want = rows_of(actual), rows_of(expected)
    if ordered:
        pairs: list[tuple[Row | None, Row | None]] = list(zip(have, want, strict=False))
        pairs = [(left, right) for left, right in pairs if not _same(left, right)]
        pairs += [(row, None) for row in have[len(want) :]] + [(None, row) for row in want[len(have) :]]
    else:
        pairs = _paired(*_without_equals(have, want), tuple(key))
    if not pairs:
        return ""
    lines = [f"rows differ: {len(have)} found, {len(want)} expected"]
    lines += [line for found, wanted in pairs[:_SHOWN] for line in _shown(found, wanted, tuple(key))]
    if len(pairs) > _SHOWN:
        lines.append(f"  and {len(pairs) - _SHOWN} more")
    return "\n".join(lines)


def rows_of(rows: Any) -> list[Row]:
    """Rows of any kind as dictionaries, including nested ones."""
    if hasattr(rows, "collect"):
        rows = rows.collect()
    return [_plain(row) for row in rows]


def _plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _without_equals(have: list[Row], want: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of both sides without equal rows."""
    unmatched_by_key: dict[Any, list[Row]] = {}
    for row in want:
        unmatched_by_key.setdefault(sort_key(row), []).append(row)
    unmatched = []
    for row in have:
        equals = unmatched_by_key.get(sort_key(row), [])
        match = next((number for number, other in enumerate(equals) if _same(row, other)), None)
        if match is None:
            unmatched.append(row)
        else:
            equals.pop(match)
    return unmatched, [row for rows in unmatched_by_key.values() for row in rows]


def _paired(have: list[Row], want: list[Row], key: tuple[str, ...]) -> list[tuple[Row | None, Row | None]]:
    """Each row with its most similar counterpart, sorted by key."""
    pairs: list[tuple[Row | None, Row | None]] = []
    unmatched = sorted(want, key=sort_key)
    for row in sorted(have, key=sort_key):
        alike = [(_likeness(row, other, key), -number) for number, other in enumerate(unmatched)]
        score, position = max(alike, default=(0, 0))
        pairs.append((row, unmatched.pop(-position) if score else None))
    return pairs + [(None, row) for row in unmatched]


def _likeness(row: Row, other: Row, key: tuple[str, ...]) -> int:
    """The number of equal cells; the leftmost counts most, because it is usually the key."""
    if key:
        return int(all(_same(row.get(name), other.get(name)) for name in key))
    width = len(row)
    return sum(
        1 + (width if number == 0 else 0)
        for number, (name, value) in enumerate(row.items())
        if name in other and _same(value, other[name])
    )


def _shown(found: Row | None, wanted: Row | None, key: tuple[str, ...]) -> list[str]:
    if found is None:
        return [f"  missing     {_cells(wanted or {})}"]
    if wanted is None:
        return [f"  unexpected  {_cells(found)}"]
    columns = [*found, *(name for name in wanted if name not in found)]
    wrong = [name for name in columns if not _same(found.get(name, _ABSENT), wanted.get(name, _ABSENT))]
    named = [name for name in (key or columns[:1]) if name not in wrong and name in found]
    lines = [f"  differs     {_cells({name: found[name] for name in named})}".rstrip()]
    lines += [f"    {name}: found {_cell(found, name)}, expected {_cell(wanted, name)}" for name in wrong]
    return lines


def _cells(row: Row) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())


def _cell(row: Row, name: str) -> str:
    return repr(row[name]) if name in row else _ABSENT


def _same(one: Any, other: Any) -> bool:
    """Equal, where NaN equals itself and 1 is not True."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124 - only NaN differs from itself


def sort_key(value: Any) -> Any:
    """A sortable key for any value, so that rows with nulls and structs can be sorted."""
    if isinstance(value, Mapping):
        return (5, tuple((name, sort_key(value[name])) for name in sorted(value, key=str)))
    if isinstance(value, (list, tuple)):
        return (4, tuple(sort_key(entry) for entry in value))
    if value is None:
        return (0,)
    if isinstance(value, (datetime, date)):
        return (3, value.isoformat())
    if isinstance(value, (bool, int, float)) or hasattr(value, "as_tuple"):
        return (1, float(value)) if value == value else (1, float("inf"), "NaN")  # noqa: PLR0124 - NaN is not ordered
    return (2, str(value))
