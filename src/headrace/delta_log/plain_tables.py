"""Tables of which a writer need know nothing but their columns, so that small batches are committed without Spark."""

from __future__ import annotations

import json

from deltalake import DeltaTable

from headrace.delta_log.plain_columns import PLAIN_TYPES, is_plain_column

# A writer need do nothing for these, unless a property or the metadata of a column asks for it.
_FEATURES = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
        *("deletionVectors", "timestampNtz", "domainMetadata", "clustering"),
    }
)
_LAST_PLAIN_PROTOCOL = 6
# Properties of Delta that do not matter to an append.
_PROPERTIES = frozenset(
    {
        *("delta.appendonly", "delta.checkpointinterval", "delta.enablechangedatafeed"),
        *("delta.enabledeletionvectors", "delta.logretentionduration", "delta.deletedfileretentionduration"),
    }
)
_TYPES = PLAIN_TYPES | {"timestamp_ntz"}


def needs_of_writers(table: DeltaTable) -> tuple[str, ...]:
    """What a table asks of its writers besides files with its columns, each as a phrase; nothing for a plain table.

    Columns are named only if neither a feature nor a property asks for more, which may be the reason for theirs.
    """
    protocol, metadata = table.protocol(), table.metadata()
    features: set[str] = set()
    if protocol.min_writer_version > _LAST_PLAIN_PROTOCOL:
        features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _FEATURES
    keys = [key for key in metadata.configuration if key.casefold().startswith("delta.")]
    found = (
        *(f"the feature {name}" for name in sorted(features)),
        *(f"the property {key}" for key in sorted(keys) if key.casefold() not in _PROPERTIES),
    )
    fields = json.loads(table.schema().to_json())["fields"]
    return found or tuple(
        f'the column "{field["name"]}", which is NOT NULL or has a rule or a special type'
        for field in fields
        if not is_plain_column(field, _TYPES)
    )
