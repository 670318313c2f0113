"""What decorators and functions of a pipeline's files were given, as values of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.model.location import Location
from headrace.pipelines.registry import Registry


def place_of(function: Callable[..., Any], registry: Registry, otherwise: Location) -> Location:
    """Where a decorated function stands."""
    code = getattr(function, "__code__", None)
    if code is None:
        return otherwise
    return Location(registry.relative(Path(code.co_filename)), code.co_firstlineno)


def texts(values: Mapping[str, Any] | None) -> Mapping[str, str]:
    """Options, properties or settings, with their values as Spark's own functions make texts of them."""
    return {str(key): text(value) for key, value in (values or {}).items()}


def text(value: Any) -> str:
    """A value as Spark's own functions make a text of it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
