"""Flows that add rows: ``append_flow`` into streaming tables and sinks, ``update_flow`` into sinks.

Source: the vendor's Python references for ``append_flow`` and ``update_flow``, and ``pyspark.pipelines`` of Spark 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from headrace.errors import PipelineError
from headrace.model.datasets import Dataset, Flow, Kind, PythonQuery
from headrace.model.location import Location
from headrace.model.names import QualifiedName
from headrace.model.sinks import FAN_OUT, SinkDefinition
from headrace.pipelines.arguments import fitting, place_of, texts
from headrace.pipelines.registry import Registry, current_registry

F = TypeVar("F")
# Characters that names of datasets cannot have.
_NOT_IN_NAMES = re.compile(r"\W+")


def append_flow(
    query_function: Any = None,
    *,
    target: str | Sequence[str] | None = None,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    once: bool = False,
) -> Any:
    """Define a flow that appends to a streaming table or delivers to a sink; a target can have several.

    Args:
        query_function: the decorated function, when used without parentheses (an error, because *target* is missing).
        target: the streaming table or sink; if there are several sinks, each gets every row, and the source is read
            once.
        name: the flow's identity, which determines its checkpoint (default: the function's name).
        comment: a comment for readers.
        spark_conf: settings for this flow only.
        once: the function returns a batch DataFrame that is appended exactly once, and again on a full refresh.
    """
    registry = current_registry("append_flow")
    given = {"target": target, "name": name, "comment": comment, "spark_conf": spark_conf}
    declared = _Declared(registry, registry.here(), "append_flow", given, once=once)
    return declared(query_function) if callable(query_function) else declared


def update_flow(
    query_function: Any = None,
    *,
    target: str | Sequence[str] | None = None,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
) -> Any:
    """Define a flow that delivers the changed rows of its result to a sink, in each batch.

    An aggregation needs no watermark: each batch delivers the new values of the groups that got rows.

    Args:
        query_function: the decorated function, which returns a streaming DataFrame.
        target: a sink other than a Delta table; if there are several sinks, each gets every row.
        name: the flow's identity, which determines its checkpoint (default: the function's name).
        comment: a comment for readers.
        spark_conf: settings for this flow only.
    """
    registry = current_registry("update_flow")
    given = {"target": target, "name": name, "comment": comment, "spark_conf": spark_conf}
    declared = _Declared(registry, registry.here(), "update_flow", given)
    return declared(query_function) if callable(query_function) else declared


class _Declared:
    """A decorator with its arguments."""

    def __init__(
        self,
        registry: Registry,
        location: Location,
        word: str,
        given: Mapping[str, Any],
        *,
        once: bool = False,
    ) -> None:
        fits = fitting(registry, word, location, given)
        target = fits.get("target")
        self._misfit = len(fits) < len(given)
        self._registry = registry
        self._location = location
        self._word = word
        self._targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
        self._name: str | None = fits.get("name")
        self._comment: str | None = fits.get("comment")
        self._spark_conf = texts(fits.get("spark_conf"))
        self._once = once

    def __call__(self, function: F) -> F:
        registry = self._registry
        if self._misfit:
            return function
        own = self._name or str(getattr(function, "__name__", "flow"))
        if not self._targets:
            problem = PipelineError("FLOW.NO_TARGET", location=self._location, flow=own, word=self._word)
            registry.problems.append(problem)
            return function
        found = [registry.name(text, self._location) for text in self._targets]
        names = [name for name in found if name is not None]
        if len(names) < len(found):
            return function
        flow = Flow(
            name=own,
            target=names[0],
            query=PythonQuery(function, registry.naming),  # type: ignore[arg-type]  # what decorators are put above
            location=place_of(function, registry, self._location),  # type: ignore[arg-type]  # the same
            once=self._once,
            comment=self._comment,
            spark_conf=self._spark_conf,
            append=True,
            updates=self._word == "update_flow",
        )
        if len(names) > 1:
            flow = self._into_all(flow, names)
        registry.add_flow(flow)
        return function

    def _into_all(self, flow: Flow, members: Sequence[QualifiedName]) -> Flow:
        """Redirect the flow to a new fan-out sink that delivers to all of its targets."""
        registry = self._registry
        name = QualifiedName(f"{_NOT_IN_NAMES.sub('_', flow.name)}_targets")
        sink = SinkDefinition(FAN_OUT, registry.naming, members=tuple(members))
        registry.add_dataset(Dataset(name, Kind.SINK, flow.location, sink=sink), None)
        return replace(flow, target=name)
