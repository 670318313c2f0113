"""What a new table gets without having been told so.

What its rows are merged by, if changes are merged into it: no flow may go on with other keys. And deletion vectors: a
batch then writes only the rows that it changes. Column mapping, if its columns have names that Parquet does not take,
such as ``sum(amount)``: Delta would refuse the table. That a table gets which is there, too, when such a column comes
to it: else its flow could not go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.autoloader.reading.column_names import UNMAPPED
from headrace.cdc.merge_keys import ROWS_PROPERTY, MergedRows
from headrace.graph.resolved import ResolvedDataset, ResolvedFlow
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema

VECTORS_PROPERTY = "delta.enableDeletionVectors"
# Who has said so, or asks for what Delta makes without them: tables that are to be read as Iceberg, or by manifests.
_SAID = (
    VECTORS_PROPERTY.casefold(),
    "delta.enableicebergcompat",
    "delta.universalformat.",
    "delta.compatibility.symlinkformatmanifest.",
)
MAPPING_PROPERTY = "delta.columnMapping.mode"
MAPPING = {MAPPING_PROPERTY: "name"}
SPECIAL = UNMAPPED


def marked_merged(
    datasets: Mapping[QualifiedName, ResolvedDataset], flows: Iterable[ResolvedFlow]
) -> dict[QualifiedName, ResolvedDataset]:
    """The datasets, of which those that changes are merged into are marked as such."""
    merged = {flow.target: MergedRows.of(feed) for flow in flows if (feed := flow.analysis.feed) is not None}
    return {name: replace(found, merged=merged.get(name)) for name, found in datasets.items()}


def as_made(dataset: ResolvedDataset, defaults: Mapping[str, str]) -> ResolvedDataset:
    """A dataset with the properties that a new table of it gets.

    Tables that are there keep what they have: who reads them may know neither deletion vectors nor column mapping.
    The latter they get with the first column that needs it (:func:`is_mapped_for`).

    Args:
        dataset: as declared, which may say otherwise.
        defaults: properties that the session gives to every new table, which may say so, too.
    """
    declared = dataset.dataset.properties
    said = {key.casefold() for key in (*declared, *defaults)}
    given: dict[str, str] = {}
    if dataset.merged is not None:
        given[ROWS_PROPERTY] = dataset.merged.to_property()
    if dataset.merged is not None and not any(key.startswith(_SAID) for key in said):
        given[VECTORS_PROPERTY] = "true"
    if not said.intersection(map(str.casefold, MAPPING)) and has_special_names(dataset.schema):
        given |= MAPPING
    if not given:
        return dataset
    return replace(dataset, dataset=replace(dataset.dataset, properties={**declared, **given}))


def maps_names(properties: Mapping[str, str]) -> bool | None:
    """Whether the properties of a table say that it maps the names of columns; None where they say nothing of it."""
    said = next((value for key, value in properties.items() if key.casefold() == MAPPING_PROPERTY.casefold()), None)
    return None if said is None else said.strip().casefold() != "none"


def is_mapped_for(schema: Schema, declared: Mapping[str, str], deployed: Mapping[str, str]) -> bool:
    """Whether a table that is there gets column mapping for a schema: it lacks it, and nobody has said otherwise."""
    return maps_names(declared) is None and not maps_names(deployed) and has_special_names(schema)


def has_special_names(schema: Schema) -> bool:
    """True where a column, or a field within one, has a name that Parquet does not take."""
    return _has_special_names(json.loads(schema.to_json()))


def _has_special_names(said: object) -> bool:
    """The same of a type as Spark's JSON has it: only its fields have names."""
    if isinstance(said, list):
        return any(map(_has_special_names, said))
    if not isinstance(said, dict):
        return False
    if not SPECIAL.isdisjoint(said["name"] if "type" in said and "name" in said else ""):
        return True
    return any(_has_special_names(part) for key, part in said.items() if key != "metadata")
