"""``persisted_view``: a named query that is stored, for queries of the pipeline's tables."""

from __future__ import annotations

from headrace.model.datasets import Dataset, Flow, Kind, SqlQuery
from headrace.pipelines.arguments import fitting
from headrace.pipelines.registry import current_registry


def persisted_view(name: str, sql: str, comment: str | None = None) -> None:
    """Define a view whose query is stored, so that it can be queried without the pipeline's files.

    It is a batch query over tables and other persisted views, and other datasets can read it. This is ``CREATE VIEW``
    in Python.

    Args:
        name: the view's name, with one to three parts.
        sql: one query.
        comment: the view's comment.

    Raises:
        PipelineError: DEFINITION.OUTSIDE: it was called outside of a pipeline's files.
    """
    registry = current_registry("persisted_view")
    location = registry.here()
    canonical = registry.name(name, location)
    given = {"sql": sql, "comment": comment}
    if canonical is None or len(fitting(registry, "persisted_view", location, given)) < len(given):
        return
    registry.add_dataset(Dataset(canonical, Kind.PERSISTED_VIEW, location, comment), None)
    query = SqlQuery(sql, registry.naming, checked=False)
    registry.add_flow(Flow(str(canonical), canonical, query, location))
