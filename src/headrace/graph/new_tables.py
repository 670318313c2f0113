"""Default properties of new tables.

Tables with merged changes store their merge keys, because no flow may continue with other keys. They also get deletion
vectors, so that a batch writes only the rows that it changes. A table gets column mapping if Parquet does not allow its
column names, such as ``sum(amount)``: otherwise Delta refuses the table. An existing table gets column mapping too,
with the first such column: otherwise its flow could not continue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.autoloader.reading.column_names import UNMAPPED
from headrace.cdc.merge_keys import MERGE_KEYS_PROPERTY, MergeKeys
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import ChangeFlow, ResolvedFlow
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema

VECTORS_PROPERTY = "delta.enableDeletionVectors"
# Prefixes of properties that set deletion vectors, or need a table without them: Iceberg compatibility and manifests.
_VECTORS_OPT_OUT = (
    VECTORS_PROPERTY.casefold(),
    "delta.enableicebergcompat",
    "delta.universalformat.",
    "delta.compatibility.symlinkformatmanifest.",
)
MAPPING_PROPERTY = "delta.columnMapping.mode"
MAPPING = {MAPPING_PROPERTY: "name"}
SPECIAL_CHARACTERS = UNMAPPED


def with_merge_keys(
    datasets: Mapping[QualifiedName, ResolvedDataset], flows: Iterable[ResolvedFlow]
) -> dict[QualifiedName, ResolvedDataset]:
    """The datasets, with ``merge_keys`` set for those that flows merge changes into."""
    merged = {flow.target: MergeKeys.of(flow.feed) for flow in flows if isinstance(flow, ChangeFlow)}
    return {name: replace(found, merge_keys=merged.get(name)) for name, found in datasets.items()}


def with_default_properties(dataset: ResolvedDataset, defaults: Mapping[str, str]) -> ResolvedDataset:
    """A dataset with the properties of a new table.

    Existing tables keep their properties: their readers may support neither deletion vectors nor column mapping. They
    get column mapping with the first column that needs it (:func:`needs_column_mapping`).

    Args:
        dataset: as declared. Its own properties win.
        defaults: properties that the session gives to every new table. They win too.
    """
    declared = dataset.dataset.properties
    named = {key.casefold() for key in (*declared, *defaults)}
    added: dict[str, str] = {}
    if dataset.merge_keys is not None:
        added[MERGE_KEYS_PROPERTY] = dataset.merge_keys.to_property()
    if dataset.merge_keys is not None and not any(key.startswith(_VECTORS_OPT_OUT) for key in named):
        added[VECTORS_PROPERTY] = "true"
    if not named.intersection(map(str.casefold, MAPPING)) and has_special_names(dataset.schema):
        added |= MAPPING
    if not added:
        return dataset
    return replace(dataset, dataset=replace(dataset.dataset, properties={**declared, **added}))


def maps_names(properties: Mapping[str, str]) -> bool | None:
    """Whether a table's properties enable column mapping; None if they do not set it."""
    setting = next((value for key, value in properties.items() if key.casefold() == MAPPING_PROPERTY.casefold()), None)
    return None if setting is None else setting.strip().casefold() != "none"


def needs_column_mapping(schema: Schema, declared: Mapping[str, str], deployed: Mapping[str, str]) -> bool:
    """Whether an existing table needs column mapping for a schema: it has none, and the code does not set it."""
    return maps_names(declared) is None and not maps_names(deployed) and has_special_names(schema)


def has_special_names(schema: Schema) -> bool:
    """True if Parquet does not allow the name of a column or of a nested field."""
    return _has_special_names(json.loads(schema.to_json()))


def _has_special_names(type_json: object) -> bool:
    """The same for a type in Spark's JSON, in which only fields have names."""
    if isinstance(type_json, list):
        return any(map(_has_special_names, type_json))
    if not isinstance(type_json, dict):
        return False
    if not SPECIAL_CHARACTERS.isdisjoint(type_json["name"] if "type" in type_json and "name" in type_json else ""):
        return True
    return any(_has_special_names(part) for key, part in type_json.items() if key != "metadata")
