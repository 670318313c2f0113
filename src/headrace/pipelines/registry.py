"""Collects the declarations of the user's files while they load.

One context variable holds the registry of the file being loaded, a second one the reader of the query function being
called. Nothing else in the package is global.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from headrace.errors import PipelineError
from headrace.model.custom_metrics import CustomMetric
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.expectations import Expectation
from headrace.model.hooks import EventHook
from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, QualifiedName
from headrace.model.pipeline_keys import normalize_keys
from headrace.settings.vendor_confs import to_open_source_confs

Function = Callable[[], Any]


class Reader(Protocol):
    """Reads data for the query function that is being called."""

    def read(self, name: str) -> Any:
        """A dataset of the pipeline as a batch DataFrame."""

    def read_stream(self, name: str) -> Any:
        """A dataset of the pipeline as a streaming DataFrame."""

    def opened(self, messages: Any, row: Any, **options: Any) -> Any:
        """Debezium messages as change events; *options* are those of ``headrace.pipelines.debezium``."""


@dataclass
class Registry:
    """Collects the declarations of one project; errors are collected, not raised, and reported together."""

    naming: Naming
    root: Path
    problems: list[PipelineError] = field(default_factory=list)
    hooks: list[EventHook] = field(default_factory=list)
    _datasets: list[tuple[Dataset, Function | None]] = field(default_factory=list)
    _flows: list[Flow] = field(default_factory=list)
    _expectations: dict[Function, list[Expectation]] = field(default_factory=dict)
    _metrics: dict[Function, list[CustomMetric]] = field(default_factory=dict)

    def name(self, text: object, location: Location) -> QualifiedName | None:
        """The canonical name for *text*; if it is invalid, record a problem and return None."""
        if not isinstance(text, str):
            reason = f"it is of type {type(text).__name__}, but must be a string"
            self.problems.append(PipelineError("NAME.INVALID", location=location, name=text, reason=reason))
            return None
        try:
            return self.naming.canonical(text)
        except InvalidName as invalid:
            self.problems.append(PipelineError("NAME.INVALID", location=location, name=text, reason=invalid))
            return None

    def add_dataset(self, dataset: Dataset, function: Function | None) -> None:
        """Declare a dataset; expectation decorators attach to *function*."""
        self._datasets.append((replace(dataset, properties=normalize_keys(dataset.properties)), function))

    def add_flow(self, flow: Flow) -> None:
        """Declare a flow; its settings are converted to open-source Spark's names."""
        self._flows.append(replace(flow, spark_conf=normalize_keys(to_open_source_confs(flow.spark_conf))))

    def add_expectations(self, function: Function, expectations: list[Expectation]) -> None:
        """Attach expectations to the dataset that *function* defines, in any order of decorators."""
        # Decorators apply bottom up; the order for readers is top down.
        self._expectations[function] = expectations + self._expectations.get(function, [])

    def add_metric(self, function: Function, metric: CustomMetric) -> None:
        """Attach a metric to the dataset that *function* defines, in any order of decorators."""
        self._metrics.setdefault(function, []).insert(0, metric)

    def definitions(self) -> Definitions:
        """Everything declared so far; expectations and metrics without a dataset become problems."""
        defined = {function for _, function in self._datasets if function is not None}
        for function, metrics in self._metrics.items():
            if function not in defined:
                name = getattr(function, "__name__", "function")
                problem = PipelineError(
                    "METRICS.NO_DATASET", location=metrics[0].location, name=metrics[0].name, function=name
                )
                self.problems.append(problem)
        for function, expectations in self._expectations.items():
            if function not in defined:
                self.problems.append(
                    PipelineError(
                        "EXPECTATION.NO_DATASET",
                        location=expectations[0].location,
                        name=expectations[0].name,
                        function=getattr(function, "__name__", "function"),
                    )
                )
        datasets = tuple(
            replace(
                dataset,
                expectations=dataset.expectations + tuple(self._expectations.get(function, ()) if function else ()),
                metrics=dataset.metrics + tuple(self._metrics.get(function, ()) if function else ()),
            )
            for dataset, function in self._datasets
        )
        return Definitions(datasets, tuple(self._flows))

    def here(self) -> Location:
        """The location of the running declaration in the user's files."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "headrace":
            frame = frame.f_back
        if frame is None:
            return Location(str(self.root))
        return Location(self.relative(Path(frame.f_code.co_filename)), frame.f_lineno)

    def relative(self, file: Path) -> str:
        """A path relative to the project's root, if it is below it."""
        try:
            return str(file.resolve().relative_to(self.root.resolve()))
        except ValueError:
            return str(file)


_REGISTRY: ContextVar[Registry] = ContextVar("headrace_registry")
_READER: ContextVar[Reader] = ContextVar("headrace_reader")


@contextmanager
def collecting(registry: Registry) -> Iterator[Registry]:
    """Send declarations inside the block to *registry*."""
    token = _REGISTRY.set(registry)
    try:
        yield registry
    finally:
        _REGISTRY.reset(token)


@contextmanager
def reading_with(reader: Reader) -> Iterator[None]:
    """Use *reader* for ``dp.read`` and ``dp.read_stream`` inside the block."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)


def current_registry(what: str) -> Registry:
    """The registry of the file being loaded.

    Raises:
        PipelineError: DEFINITION.OUTSIDE: no file of a pipeline is being loaded.
    """
    registry = _REGISTRY.get(None)
    if registry is None:
        raise PipelineError("DEFINITION.OUTSIDE", what=what)
    return registry


def current_reader(what: str) -> Reader:
    """The reader of the query function being called.

    Raises:
        PipelineError: DEFINITION.READ_OUTSIDE: no query function is being called.
    """
    reader = _READER.get(None)
    if reader is None:
        raise PipelineError("DEFINITION.READ_OUTSIDE", what=what)
    return reader
