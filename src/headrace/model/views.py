"""The definition of a persisted view: what is stored of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.datasets import Dataset, SqlQuery
from headrace.model.names import Naming, QualifiedName


@dataclass(frozen=True)
class ViewDefinition:
    """A view's query, and the catalog and schema that names without one are read in there."""

    name: QualifiedName
    query: str
    catalog: str | None
    schema: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    column_comments: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(dataset: Dataset, query: SqlQuery) -> ViewDefinition:
        """The definition that a dataset and its query declare."""
        naming = query.naming
        return ViewDefinition(
            name=dataset.name,
            query=query.text,
            catalog=naming.current_catalog or naming.catalog,
            schema=naming.current_schema or naming.schema,
            comment=dataset.comment,
            properties=dict(dataset.properties),
            column_comments=dict(dataset.column_comments),
        )

    def naming(self, own: Naming) -> Naming:
        """What the names in the query are read in, in a pipeline that has *own* names."""
        return own.use(catalog=self.catalog, schema=self.schema)
