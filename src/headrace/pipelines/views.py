"""``persisted_view``: a query that is stored under a name, for whoever asks the pipeline's tables."""

from __future__ import annotations

from headrace.model.datasets import Dataset, Flow, Kind, SqlQuery
from headrace.pipelines.arguments import fitting
from headrace.pipelines.registry import current_registry


def persisted_view(name: str, sql: str, comment: str | None = None) -> None:
    """Define a view whose query is stored, so that it can be read when the pipeline's files are not loaded.

    It is a batch query over tables and other persisted views; other datasets can read it. The same as ``CREATE VIEW``
    in SQL.

    Args:
        name: the view's name, of one to three parts.
        sql: one query.
        comment: what is said about it.

    Raises:
        PipelineError: DEFINITION.OUTSIDE when called outside of a pipeline's files.
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
