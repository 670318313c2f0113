"""Current values of metrics by their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.metrics.catalogue import BY_NAME
from headrace.metrics.metric import Metric

# In place of a bucket's bound: values above all bounds, and the sum of the values.
INFINITY, SUM = "+Inf", "sum"


class Samples:
    """Values of metrics. The labels of a value are given in the order in which its metric has them."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], float]] = {}

    def copy(self) -> Samples:
        """The same values, which can be changed without these."""
        found = Samples()
        found._values = {name: dict(values) for name, values in self._values.items()}
        return found

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        """Increase a counter."""
        values = self._values.setdefault(metric.name, {})
        values[labels] = values.get(labels, 0) + value

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._values.setdefault(metric.name, {})[labels] = value

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Count a value in a histogram."""
        bound = next((f"{float(bound)}" for bound in metric.buckets if value <= bound), INFINITY)
        self.add(metric, 1, *labels, bound)
        self.add(metric, value, *labels, SUM)

    def histograms(self, metric: Metric) -> Iterator[tuple[tuple[str, ...], Mapping[str, float], float]]:
        """The labels of each histogram, its cumulative counts by the bound of a bucket, and the sum of its values."""
        values = self.of(metric)
        for labels in dict.fromkeys(found[:-1] for found in values):
            count, counts = 0.0, {}
            for bound in (*(f"{float(bound)}" for bound in metric.buckets), INFINITY):
                count += values.get((*labels, bound), 0)
                counts[bound] = count
            yield labels, counts, values.get((*labels, SUM), 0)

    def drop(self, metric: Metric, where: Callable[[Mapping[str, str]], bool] = lambda _labels: True) -> None:
        """Remove the values of a metric whose labels fulfil a condition."""
        values = self._values.get(metric.name, {})
        for labels in [found for found in values if where(dict(zip(metric.sample_labels, found, strict=True)))]:
            del values[labels]
        if not values:
            # The order of metrics is that in which they got their values, also after a snapshot.
            self._values.pop(metric.name, None)

    def of(self, metric: Metric) -> Mapping[tuple[str, ...], float]:
        """The values of a metric by their labels."""
        return self._values.get(metric.name, {})

    def to_json(self) -> list[list[Any]]:
        """Each value as a list: metric, labels, value."""
        return [
            [name, list(labels), value] for name, values in self._values.items() for labels, value in values.items()
        ]

    @classmethod
    def from_json(cls, given: Any) -> Samples:
        """The values of :meth:`to_json`. Metrics that this version does not have are left out.

        Raises:
            ValueError: it is something else.
        """
        found = cls()
        for name, labels, value in _triples(given):
            metric = BY_NAME.get(name)
            if metric is not None and len(labels) == len(metric.sample_labels):
                found.set(metric, value, *labels)
        return found


def _triples(given: Any) -> Iterator[tuple[str, list[str], float]]:
    for one in given if isinstance(given, list) else [None]:
        match one:
            case [str(name), [*labels], int() | float() as value] if all(isinstance(label, str) for label in labels):
                yield name, labels, value
            case _:
                raise ValueError(one)
