"""What a metastore has about a table, and the same about a published table as the pipeline wants it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from headrace.model.datasets import Kind

# Older metastores store no more characters of a value.
_MOST_CHARACTERS = 4000
_OWN_PREFIX = "headrace."
_PIPELINE_ID = "headrace.pipeline_id"
_PIPELINE = "headrace.pipeline"
_STORAGE = "headrace.storage"
_DATASET = "headrace.dataset"
_KIND = "headrace.kind"
_STATE = "headrace.state"
# The names of the properties that come from the table, as JSON: those that it no longer has are removed.
_PROPERTIES = "headrace.properties"
_REMOVED = "removed"
_SCHEMA = "spark.sql.sources.schema"
# Of the metastore, of Spark and of Headrace: a table cannot set them.
_RESERVED_PREFIXES = (_OWN_PREFIX, "spark.sql.")
_RESERVED = frozenset(
    {"comment", "external", "location", "numfiles", "numrows", "owner", "path", "provider", "totalsize", "type"}
)


@dataclass(frozen=True)
class Owner:
    """A pipeline that publishes tables.

    Attributes:
        pipeline_id: its id; pipelines of one name share it.
        pipeline: its name.
        storage: its storage, which distinguishes pipelines of one id.
    """

    pipeline_id: str
    pipeline: str
    storage: str


@dataclass(frozen=True)
class TableFacts:
    """A table of the pipeline that is to be published.

    Attributes:
        dataset: the name of the dataset.
        kind: what it is.
        location: of the table, as Spark spells it.
        schema_json: its columns, as Spark writes them.
        comment: of the table; empty for none.
        properties: of the table.
    """

    dataset: str
    kind: Kind
    location: str
    schema_json: str
    comment: str = ""
    properties: Mapping[str, str] | None = None


@dataclass(frozen=True)
class CatalogEntry:
    """The entry of a table in a metastore.

    Attributes:
        schema: in lower case, as metastores compare names.
        name: in lower case.
        location: of the table; empty if the entry names none.
        parameters: everything else that the entry says.
    """

    schema: str
    name: str
    location: str
    parameters: Mapping[str, str]

    @property
    def table(self) -> str:
        """Schema and name."""
        return f"{self.schema}.{self.name}"

    @property
    def dataset(self) -> str:
        """The dataset that it was published for; empty if no pipeline published it."""
        return self.parameters.get(_DATASET, "")

    @property
    def publisher(self) -> str:
        """Who published it, for messages; empty if no pipeline did."""
        name, storage = self.parameters.get(_PIPELINE, ""), self.parameters.get(_STORAGE, "")
        return f'pipeline "{name}" with the storage {storage}' if storage else ""

    @property
    def is_removed(self) -> bool:
        """Whether it is marked: the pipeline no longer has the dataset."""
        return self.parameters.get(_STATE) == _REMOVED

    def belongs_to(self, owner: Owner) -> bool:
        """Whether a pipeline has published it."""
        own = (self.parameters.get(_PIPELINE_ID), self.parameters.get(_STORAGE))
        return own == (owner.pipeline_id, owner.storage)

    def updated(self, wanted: CatalogEntry) -> CatalogEntry:
        """This entry as it is wanted, with what others have added to it."""
        gone = set(_names(self.parameters)) - set(_names(wanted.parameters))
        kept = {
            key: value
            for key, value in self.parameters.items()
            if key not in gone and key != "comment" and not key.startswith((_OWN_PREFIX, _SCHEMA))
        }
        return replace(wanted, parameters={**kept, **wanted.parameters})

    def removed(self) -> CatalogEntry:
        """This entry, marked: the pipeline no longer has the dataset."""
        return replace(self, parameters={**self.parameters, _STATE: _REMOVED})


def entry_of(table: TableFacts, schema: str, name: str, owner: Owner, spark_version: str) -> CatalogEntry:
    """The entry that a table is published with, in the format in which Spark stores the Delta tables of a metastore.

    Values that metastores cannot store are left out: properties of more than 4,000 characters; a comment is cut.

    Args:
        table: the table.
        schema: the schema of the entry.
        name: the name of the entry.
        owner: the pipeline.
        spark_version: of the Spark that writes the table.
    """
    own = {key: value for key, value in (table.properties or {}).items() if _is_of_table(key, value)}
    parameters = {
        **own,
        "EXTERNAL": "TRUE",
        "spark.sql.create.version": spark_version,
        "spark.sql.sources.provider": "delta",
        **dict(_schema_parameters(table.schema_json)),
        _PIPELINE_ID: owner.pipeline_id,
        _PIPELINE: owner.pipeline,
        _STORAGE: owner.storage,
        _DATASET: table.dataset,
        _KIND: table.kind.value,
        _PROPERTIES: json.dumps(sorted(own)),
    }
    if table.comment:
        cut = len(table.comment) > _MOST_CHARACTERS
        parameters["comment"] = f"{table.comment[: _MOST_CHARACTERS - 1]}…" if cut else table.comment
    return CatalogEntry(schema.lower(), name.lower(), table.location, parameters)


def _schema_parameters(schema_json: str) -> Iterator[tuple[str, str]]:
    """The columns, cut into parts where they are too long for one value."""
    if len(schema_json) <= _MOST_CHARACTERS:
        yield _SCHEMA, schema_json
        return
    starts = range(0, len(schema_json), _MOST_CHARACTERS)
    yield f"{_SCHEMA}.numParts", str(len(starts))
    for number, start in enumerate(starts):
        yield f"{_SCHEMA}.part.{number}", schema_json[start : start + _MOST_CHARACTERS]


def _is_of_table(key: str, value: str) -> bool:
    lowered = key.lower()
    is_reserved = lowered in _RESERVED or lowered.startswith(_RESERVED_PREFIXES)
    return not is_reserved and max(len(key), len(value)) <= _MOST_CHARACTERS


def _names(parameters: Mapping[str, str]) -> list[str]:
    try:
        return [str(name) for name in json.loads(parameters.get(_PROPERTIES, "[]"))]
    except (ValueError, TypeError):
        return []
