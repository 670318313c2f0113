"""All table properties of Headrace, so that a misspelled one is reported instead of ignored."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.datasets import PRIVATE_PROPERTY
from headrace.model.schema import Schema
from headrace.model.sequence_conflicts import ON_TIE_KEY, OnTie
from headrace.model.tags import TAGS_PROPERTY

PREFIX = "headrace."
STRICT_PROPERTY = "headrace.strict"

# What each property does, for messages.
KNOWN_PROPERTIES: Mapping[str, str] = {
    PRIVATE_PROPERTY: "the table is for the pipeline alone",
    STRICT_PROPERTY: "the schema of the table does not change, columns that are added included",
    ON_TIE_KEY: "what is done about change events that have the same key and sequence, and are not the same",
    TAGS_PROPERTY: "words, separated by commas, by which commands select the dataset",
}
_SWITCH = ("true", "false")
_VALUES = {ON_TIE_KEY: tuple(one.value for one in OnTie)}

# Types that need a table feature, which Delta does not enable by itself in an existing table.
_FEATURES = {"timestamp_ntz": "delta.feature.timestampNtz", "variant": "delta.feature.variantType"}


def needed_features(schema: Schema) -> tuple[str, ...]:
    """The table features that these columns need, as properties of a Delta table."""
    types = "".join(column.json_type for column in schema.columns)
    return tuple(feature for name, feature in _FEATURES.items() if f'"{name}"' in types)


def is_strict(properties: Mapping[str, str]) -> bool:
    """True if the schema of the table may not change."""
    return switched_on(properties, STRICT_PROPERTY)


def switched_on(properties: Mapping[str, str], key: str) -> bool:
    """True if a property is "true", in any case."""
    return properties.get(key, "false").strip().casefold() == "true"


def values_of(key: str) -> tuple[str, ...]:
    """The valid values of a property, in any case; none if it is a text of the user's."""
    if key == TAGS_PROPERTY:
        return ()
    return _VALUES.get(key, _SWITCH)
