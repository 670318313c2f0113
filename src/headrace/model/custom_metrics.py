"""Metrics that users define: aggregates of the rows of a batch, and numbers that their functions record."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from headrace.model.location import Location

# Names become labels of a time series, so they are short and do not come from data.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


# Of table properties in SQL files, which declare metrics.
METRIC_PREFIX = "headrace.metric."


@dataclass(frozen=True)
class CustomMetric:
    """An aggregate of the rows that each batch writes to a table.

    Attributes:
        name: a valid name, see :func:`is_metric_name`.
        expression: SQL text, one call of an aggregate function.
        location: of the declaration.
    """

    name: str
    expression: str
    location: Location


@dataclass(frozen=True)
class MetricValue:
    """The value of a metric in a batch, or in several.

    ``is_total`` is True if the values of batches add up; otherwise the value of the newest batch counts.
    """

    name: str
    value: float
    is_total: bool

    def to_json(self) -> dict[str, Any]:
        """The value as one JSON object."""
        return {"name": self.name, "value": self.value, "kind": "total" if self.is_total else "last"}

    @classmethod
    def from_json(cls, given: Any) -> MetricValue:
        """The value of :meth:`to_json`; raises KeyError, TypeError or ValueError for something else."""
        value = given["value"]
        if not isinstance(value, int | float):
            raise TypeError(value)
        return cls(str(given["name"]), value, given["kind"] == "total")


def metric_name_of(key: str) -> str | None:
    """The name of the metric that a table property declares; None for other properties."""
    return key[len(METRIC_PREFIX) :] if key.casefold().startswith(METRIC_PREFIX) else None


def is_metric_name(name: object) -> bool:
    """Whether a name has only letters, digits and "_", at most 64, and no digit first."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def added_values(first: Iterable[MetricValue], second: Iterable[MetricValue]) -> tuple[MetricValue, ...]:
    """The values of two batches together; for metrics that do not add up, those of the second one.

    Law: associative, as long as no metric changes its kind.
    """
    found = {one.name: one for one in first}
    for one in second:
        known = found.get(one.name)
        adds_up = known is not None and known.is_total and one.is_total
        found[one.name] = replace(one, value=known.value + one.value) if known is not None and adds_up else one
    return tuple(found.values())
