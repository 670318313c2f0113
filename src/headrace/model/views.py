"""The stored definition of a persisted view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.datasets import Dataset, SqlQuery
from headrace.model.names import Naming, QualifiedName


@dataclass(frozen=True)
class ViewDefinition:
    """A view's query, and the catalog, schema and Spark confs for resolving it.

    The confs apply when the query is resolved, like those that Spark stores with its own views.
    """

    name: QualifiedName
    query: str
    catalog: str | None
    schema: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    column_comments: Mapping[str, str] = field(default_factory=dict)
    confs: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(dataset: Dataset, query: SqlQuery, confs: Mapping[str, str]) -> ViewDefinition:
        """The definition from a dataset, its query and the confs in force."""
        naming = query.naming
        return ViewDefinition(
            name=dataset.name,
            query=query.text,
            catalog=naming.current_catalog or naming.catalog,
            schema=naming.current_schema or naming.schema,
            comment=dataset.comment,
            properties=dict(dataset.properties),
            column_comments=dict(dataset.column_comments),
            confs={key: value for key, value in confs.items() if key.startswith("spark.")},
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the definition that are stored verbatim."""
        values = (*self.properties.values(), *self.column_comments.values(), *self.confs.values())
        return (self.query, self.comment or "", *values)

    def naming(self, own: Naming) -> Naming:
        """The naming that resolves the query's names, in a pipeline with *own* defaults."""
        return own.use(catalog=self.catalog, schema=self.schema)
