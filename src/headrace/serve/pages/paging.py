"""Long lists in parts: a page shows one part, and says how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from headrace.serve.whole_numbers import whole_number

_Item = TypeVar("_Item")
_MOST_DIGITS = 6


def page_number(text: str) -> int:
    """The number of a part in a query; 1 for anything else."""
    return max(whole_number(text, _MOST_DIGITS) or 1, 1)


def part_of(items: Sequence[_Item], number: int, size: int) -> tuple[Sequence[_Item], dict[str, Any]]:
    """One part of a list, and where it is; the last part for a number above all.

    Args:
        items: the whole list.
        number: of the part, from 1.
        size: how many items a part has.
    """
    first, paging = paging_of(len(items), number, size)
    return items[first : first + size], paging


def paging_of(total: int, number: int, size: int) -> tuple[int, dict[str, Any]]:
    """Where a part of a list is: how many items come before it, and its place; the last part for a number above all.

    Args:
        total: how many items the list has.
        number: of the part, from 1.
        size: how many items a part has.
    """
    parts = max(-(-total // size), 1)
    number = min(number, parts)
    return (number - 1) * size, {"page": number, "pages": parts, "total": total}
