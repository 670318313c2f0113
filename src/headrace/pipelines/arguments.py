"""Convert arguments of the pipeline API to values of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.pipelines.registry import Registry


def place_of(function: Callable[..., Any], registry: Registry, otherwise: Location) -> Location:
    """The source location of a decorated function."""
    code = getattr(function, "__code__", None)
    if code is None:
        return otherwise
    return Location(registry.relative(Path(code.co_filename)), code.co_firstlineno)


class Expected(Enum):
    """The expected kind of an argument; the value is for messages."""

    TEXT = "a string"
    TEXTS = "a string or a list of strings"
    MAPPING = "a mapping of strings"

    def holds(self, value: Any) -> bool:
        """Whether a value is of this kind."""
        if self is Expected.MAPPING:
            return isinstance(value, Mapping)
        if isinstance(value, str):
            return True
        listed = isinstance(value, Sequence | AbstractSet)
        return self is Expected.TEXTS and listed and all(isinstance(item, str) for item in value)


# By argument name, for all functions that have it.
_EXPECTED: Mapping[str, Expected] = {
    "name": Expected.TEXT,
    "comment": Expected.TEXT,
    "format": Expected.TEXT,
    "sql": Expected.TEXT,
    "schedule": Expected.TEXT,
    "refresh_policy": Expected.TEXT,
    "partition_cols": Expected.TEXTS,
    "cluster_by": Expected.TEXTS,
    "target": Expected.TEXTS,
    "table_properties": Expected.MAPPING,
    "spark_conf": Expected.MAPPING,
    "options": Expected.MAPPING,
    "metrics": Expected.MAPPING,
}


def fitting(registry: Registry, word: str, location: Location, given: Mapping[str, Any]) -> dict[str, Any]:
    """The valid arguments of a call; those of a wrong kind become problems. None is always valid."""
    found: dict[str, Any] = {}
    for argument, value in given.items():
        expected = _EXPECTED.get(argument)
        if value is None or expected is None or expected.holds(value):
            found[argument] = value
            continue
        registry.problems.append(
            PipelineError(
                "DEFINITION.WRONG_TYPE",
                location=location,
                what=word,
                argument=argument,
                value=repr(value),
                expected=expected.value,
            )
        )
    return found


def column(name: str) -> str:
    """The name of a column, given plain or in backticks."""
    quoted = len(name) > 2 and name[0] == name[-1] == "`"
    inner = name[1:-1].replace("``", "") if quoted else "`"
    return name[1:-1].replace("``", "`") if "`" not in inner else name


def texts(values: Mapping[str, Any] | None) -> Mapping[str, str]:
    """Options, properties or settings, with their values as strings like in Spark's own functions."""
    return {str(key): text(value) for key, value in (values or {}).items()}


def text(value: Any) -> str:
    """A value as a string, like in Spark's own functions."""
    return str(value).lower() if isinstance(value, bool) else str(value)
