"""Which tables a pipeline has published, and what is not done yet: a file in its storage.

It says under which names the pipeline has entries, so that those of datasets that are gone are found, and it says what
the command line shows, without a connection to a metastore.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headrace.atomic_write import replace_file
from headrace.settings.storage import MonitoringFile, StorageLayout
from headrace.stores.paths import StoragePath, storage_path

_FORMAT = 1


class PublicationState(str, Enum):
    """How far the entry of a table is."""

    PUBLISHED = "published"
    # The metastore has not been reached since the table has changed, or was declared.
    PENDING = "pending"
    # The dataset is no longer published; its entry stays.
    REMOVED = "removed"


@dataclass(frozen=True)
class Publication:
    """The entry of a dataset in a catalog."""

    catalog: str
    schema: str
    table: str
    dataset: str
    state: PublicationState

    @property
    def name(self) -> str:
        """The full name."""
        return f"{self.catalog}.{self.schema}.{self.table}"

    def describe(self) -> str:
        """One line."""
        if self.state is PublicationState.PENDING:
            return f"{self.name} (not published yet)"
        if self.state is PublicationState.REMOVED:
            return f"{self.name} (no longer in the pipeline; the entry and the table stay)"
        return self.name

    def to_json(self) -> dict[str, Any]:
        """The publication as JSON; the keys are those of the stored format."""
        return {
            "catalog": self.catalog,
            "schema": self.schema,
            "table": self.table,
            "dataset": self.dataset,
            "state": self.state.value,
        }

    @classmethod
    def from_json(cls, raw: Any) -> Publication:
        """The inverse of :meth:`to_json`."""
        catalog, schema, table, dataset = (str(raw[key]) for key in ("catalog", "schema", "table", "dataset"))
        return cls(catalog, schema, table, dataset, PublicationState(raw["state"]))


@dataclass(frozen=True)
class PublicationRecord:
    """What a pipeline has published, by the latest update.

    Attributes:
        publications: of all catalogs.
        problems: by the name of a catalog, why it is not up to date.
    """

    publications: tuple[Publication, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)

    def of_catalog(self, catalog: str) -> tuple[Publication, ...]:
        """The publications in one catalog."""
        return tuple(one for one in self.publications if one.catalog.casefold() == catalog.casefold())

    def of_dataset(self, dataset: str) -> tuple[Publication, ...]:
        """The publications of a dataset."""
        return tuple(one for one in self.publications if one.dataset.casefold() == dataset.casefold())

    def describe(self) -> Iterable[str]:
        """Lines of text: each publication, and each problem."""
        yield from (f"published: {one.describe()}" for one in self.publications)
        for catalog, reason in self.problems.items():
            yield f"catalog {catalog} is not up to date, the next update repairs it: {reason}"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON; the keys are those of the stored format."""
        return {"tables": [one.to_json() for one in self.publications], "problems": self.problems}


def read_publications(layout: StorageLayout) -> PublicationRecord:
    """The record of a storage; an empty one if nothing was published, or if the file cannot be read.

    A lost record costs little: entries of datasets that are gone are not marked, and everything else is found again.
    """
    try:
        raw = json.loads(_file(layout).read_text(encoding="utf-8"))
        found = tuple(Publication.from_json(one) for one in raw["tables"])
        return PublicationRecord(found, {str(key): str(value) for key, value in raw["problems"].items()})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return PublicationRecord()


def write_publications(layout: StorageLayout, record: PublicationRecord) -> None:
    """Store the record; the change is atomic.

    Raises:
        OSError: it cannot be written.
    """
    file = _file(layout)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps({"format": _FORMAT, **record.to_json()}, indent=1, sort_keys=True))


def _file(layout: StorageLayout) -> StoragePath:
    return storage_path(layout.monitoring(MonitoringFile.PUBLICATIONS))
