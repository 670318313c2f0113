"""What the user's files declare, collected while they load.

One context variable holds the registry of the file being loaded; a second one, the reader of the query function
being called. Nothing else in the package is global.
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
from headrace.model.datasets import Dataset, Definitions, Flow
from headrace.model.expectations import Expectation
from headrace.model.hooks import EventHook
from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, QualifiedName
from headrace.model.pipeline_keys import in_one_spelling
from headrace.settings.vendor_confs import in_open_words

Function = Callable[[], Any]


class Reader(Protocol):
    """What the query function that is being called may ask for."""

    def read(self, name: str) -> Any:
        """A dataset of the pipeline as a batch DataFrame."""

    def read_stream(self, name: str) -> Any:
        """A dataset of the pipeline as a streaming DataFrame."""

    def opened(self, messages: Any, row: Any, **options: Any) -> Any:
        """Messages of Debezium as change events, with the other arguments of ``headrace.pipelines.debezium``."""


@dataclass
class Registry:
    """Collects declarations of one project; errors are kept, not raised, so that all can be reported at once."""

    naming: Naming
    root: Path
    problems: list[PipelineError] = field(default_factory=list)
    hooks: list[EventHook] = field(default_factory=list)
    _datasets: list[tuple[Dataset, Function | None]] = field(default_factory=list)
    _flows: list[Flow] = field(default_factory=list)
    _expectations: dict[Function, list[Expectation]] = field(default_factory=dict)

    def name(self, text: object, location: Location) -> QualifiedName | None:
        """The canonical name behind *text*; a problem is recorded and None returned when it is not one."""
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
        """Declare a dataset; *function* is what expectation decorators attach to."""
        self._datasets.append((replace(dataset, properties=in_one_spelling(dataset.properties)), function))

    def add_flow(self, flow: Flow) -> None:
        """Declare a flow; its settings are in the words of open Spark from here on."""
        self._flows.append(replace(flow, spark_conf=in_one_spelling(in_open_words(flow.spark_conf))))

    def add_expectations(self, function: Function, expectations: list[Expectation]) -> None:
        """Attach expectations to the dataset that *function* defines, whichever decorator came first."""
        # Decorators apply from the bottom up; the reader's order is top down.
        self._expectations[function] = expectations + self._expectations.get(function, [])

    def definitions(self) -> Definitions:
        """Everything declared so far; expectations without a dataset become problems."""
        defined = {function for _, function in self._datasets if function is not None}
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
            )
            for dataset, function in self._datasets
        )
        return Definitions(datasets, tuple(self._flows))

    def here(self) -> Location:
        """Where in the user's files the running declaration stands."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "headrace":
            frame = frame.f_back
        if frame is None:
            return Location(str(self.root))
        return Location(self.relative(Path(frame.f_code.co_filename)), frame.f_lineno)

    def relative(self, file: Path) -> str:
        """A path as the reader knows it: below the project's root where possible."""
        try:
            return str(file.resolve().relative_to(self.root.resolve()))
        except ValueError:
            return str(file)


_REGISTRY: ContextVar[Registry] = ContextVar("headrace_registry")
_READER: ContextVar[Reader] = ContextVar("headrace_reader")


@contextmanager
def collecting(registry: Registry) -> Iterator[Registry]:
    """Let declarations made inside the block go to *registry*."""
    token = _REGISTRY.set(registry)
    try:
        yield registry
    finally:
        _REGISTRY.reset(token)


@contextmanager
def reading_with(reader: Reader) -> Iterator[None]:
    """Let ``dp.read`` and ``dp.read_stream`` inside the block use *reader*."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)


def current_registry(what: str) -> Registry:
    """The registry of the file being loaded.

    Raises:
        PipelineError: DEFINITION.OUTSIDE when no file of a pipeline is being loaded.
    """
    registry = _REGISTRY.get(None)
    if registry is None:
        raise PipelineError("DEFINITION.OUTSIDE", what=what)
    return registry


def current_reader(what: str) -> Reader:
    """The reader of the query function being called.

    Raises:
        PipelineError: DEFINITION.READ_OUTSIDE when no query function is being called.
    """
    reader = _READER.get(None)
    if reader is None:
        raise PipelineError("DEFINITION.READ_OUTSIDE", what=what)
    return reader
