"""The first argument of a call, whether positional or by keyword."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# PySpark's names for the first parameter of methods that take a table.
_NAMES = ("tableName", "name", "table", "identifier")


def with_first(arguments: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The first argument and the remaining ones; None if there is no first argument."""
    if arguments:
        return arguments[0], arguments[1:], dict(options)
    given = next((name for name in _NAMES if name in options), None)
    return options.get(given or ""), (), {name: value for name, value in options.items() if name != given}
