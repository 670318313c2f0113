"""Sinks: ``create_sink`` and ``foreach_batch_sink``.

Source: the vendor's Python references for both, and ``create_sink`` of ``pyspark.pipelines`` of Spark 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from headrace.errors import PipelineError
from headrace.model.datasets import Dataset, Kind
from headrace.model.location import Location
from headrace.model.sinks import FOREACH_BATCH, SinkDefinition
from headrace.pipelines.arguments import fitting, place_of, texts
from headrace.pipelines.registry import Registry, current_registry

F = TypeVar("F", bound=Callable[[Any, int], Any])


def create_sink(
    name: str,
    format: str,  # noqa: A002 - the vendor's name
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
) -> None:
    """Define a system outside the pipeline to which ``append_flow`` and ``update_flow`` deliver rows.

    Delivered rows are final: a full refresh delivers them again and removes nothing.

    Args:
        name: the sink's name, used as target of flows; a sink cannot be read.
        format: ``delta``, ``kafka``, ``jdbc``, ``http``, ``console``, a file format (``json``, ``csv``, ``parquet``,
            ``orc``, ``avro``, ``text``, ``xml``), or the name of a Python data source.
        options: options of the format; docs/reference/sinks.md lists them.
        comment: a comment for readers.
    """
    registry = current_registry("create_sink")
    location = registry.here()
    given = {"format": format, "options": options, "comment": comment}
    if len(fitting(registry, "create_sink", location, given)) < len(given):
        return
    if not str(format or "").strip():
        registry.problems.append(PipelineError("SINK.NO_FORMAT", location=location, name=name))
        return
    sink = SinkDefinition(format.strip(), registry.naming, texts(options))
    _add(registry, name, location, sink, comment)


def foreach_batch_sink(function: Any = None, /, *, name: str | None = None) -> Any:
    """Define a sink as a function that receives each batch: ``f(df, batch_id)``.

    A batch is repeated with the same ``batch_id`` if the function, or the update, ends before the batch is committed. A
    full refresh starts again at batch 0. ``headrace.delivery`` helps to write exactly once in such a function.

    Args:
        function: the decorated function, when used without parentheses.
        name: the sink's name, used as target of flows (default: the function's name).
    """
    registry = current_registry("foreach_batch_sink")
    location = registry.here()

    def declare(decorated: F) -> F:
        if not callable(decorated):
            problem = PipelineError("DEFINITION.NOT_CALLABLE", location=location, what="foreach_batch_sink")
            registry.problems.append(problem)
            return decorated
        sink = SinkDefinition(FOREACH_BATCH, registry.naming, function=decorated)
        own = name or decorated.__name__
        _add(registry, own, place_of(decorated, registry, location), sink, None, decorated)
        return decorated

    return declare if function is None else declare(function)


def _add(
    registry: Registry,
    name: str,
    location: Location,
    sink: SinkDefinition,
    comment: str | None,
    function: Callable[..., Any] | None = None,
) -> None:
    found = registry.name(name, location)
    if found is not None:
        registry.add_dataset(Dataset(found, Kind.SINK, location, comment, sink=sink), function)
