"""Tables of a metastore that queries read by their full name, and that are no datasets of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from headrace.catalogs.client import MetastoreClient
from headrace.errors import PipelineError
from headrace.model.local_path import local_path
from headrace.model.names import QualifiedName
from headrace.settings.catalogs import CatalogSettings

_PROVIDER = "spark.sql.sources.provider"
# A table without a provider is one of Hive itself.
_OF_HIVE = "hive"


class ForeignTables:
    """Finds Delta tables in the metastores of the settings. A name that was found is not asked for again.

    Args:
        catalogs: the metastores, by the names of their catalogs in lower case.
        connect: opens a connection to a metastore.
    """

    def __init__(
        self, catalogs: Mapping[str, CatalogSettings], connect: Callable[[CatalogSettings], MetastoreClient]
    ) -> None:
        self._catalogs = catalogs
        self._connect = connect
        self._found: dict[QualifiedName, str] = {}

    def location(self, name: QualifiedName) -> str | None:
        """The path of the Delta table with a name of three parts; None if no metastore of the settings has it.

        Raises:
            PipelineError: CATALOG.NOT_DELTA: it has another format; CATALOG.UNAVAILABLE, CATALOG.REFUSED.
        """
        catalog = self._catalogs.get((name.catalog or "").casefold())
        if catalog is None or name.schema is None:
            return None
        if name not in self._found:
            path = self._ask(catalog, name.schema.lower(), name.name.lower())
            if path is None:
                return None
            self._found[name] = path
        return self._found[name]

    def _ask(self, catalog: CatalogSettings, schema: str, table: str) -> str | None:
        with closing(self._connect(catalog)) as client:
            entry = client.find(schema, [table]).get(table)
        if entry is None:
            return None
        provider = entry.parameters.get(_PROVIDER, _OF_HIVE).lower()
        if provider != "delta":
            raise PipelineError("CATALOG.NOT_DELTA", catalog=catalog.name, table=entry.table, format=provider)
        return local_path(entry.location)
