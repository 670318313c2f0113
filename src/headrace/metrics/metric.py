"""What a metric is: its names, kind, unit and labels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MetricKind(str, Enum):
    """A counter only increases, except when the event log is lost; a gauge is a current value.

    A histogram counts values by the buckets into which they fall.
    """

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: in OpenTelemetry.
        prometheus: in Prometheus' text format; counters end with ``_total``.
        kind: counter, gauge or histogram.
        unit: in UCUM, such as ``s`` or ``{row}``.
        labels: besides ``pipeline``.
        help: one sentence.
        buckets: the upper bounds of the buckets of a histogram, without infinity.
    """

    name: str
    prometheus: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()

    @property
    def sample_labels(self) -> tuple[str, ...]:
        """The labels of a value; those of a histogram also have the bound of a bucket, or ``sum``."""
        return (*self.labels, "le") if self.kind is MetricKind.HISTOGRAM else self.labels
