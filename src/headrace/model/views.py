"""The definition of a persisted view: what is stored of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.datasets import Dataset, SqlQuery
from headrace.model.names import Naming, QualifiedName


@dataclass(frozen=True)
class ViewDefinition:
    """A view's query, and the catalog, the schema and the Spark confs that it is read in.

    The confs act when the query is resolved, as those do that Spark keeps with its own stored views.
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
        """The definition that a dataset, its query and the confs in force there declare."""
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
        """Every text of the definition that is stored as it is."""
        said = (*self.properties.values(), *self.column_comments.values(), *self.confs.values())
        return (self.query, self.comment or "", *said)

    def naming(self, own: Naming) -> Naming:
        """What the names in the query are read in, in a pipeline that has *own* names."""
        return own.use(catalog=self.catalog, schema=self.schema)
