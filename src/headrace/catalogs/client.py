"""The port to a metastore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from headrace.catalogs.entry import CatalogEntry


class MetastoreClient(Protocol):
    """A connection to a metastore.

    All methods raise ``PipelineError``: CATALOG.UNAVAILABLE, or CATALOG.REFUSED if the metastore does not do it.
    """

    def find(self, schema: str, names: Iterable[str]) -> Mapping[str, CatalogEntry]:
        """The entries of a schema with one of the names, by name; none if the schema does not exist."""

    def create(self, entry: CatalogEntry) -> bool:
        """Create an entry, and its schema; False if another entry has the name: of several callers, one creates it."""

    def replace(self, name: str, entry: CatalogEntry) -> None:
        """Replace the entry of a name in the schema, which gets the new entry's name."""

    def close(self) -> None:
        """Close the connection."""
