"""Which tables of a storage are private: they are shown on request only."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.delta_log.tables import table_state
from headrace.model.datasets import is_private
from headrace.model.names import QUARANTINE_SUFFIX, QualifiedName


def hidden_tables(tables: Mapping[QualifiedName, str]) -> frozenset[QualifiedName]:
    """The private tables among *tables* (name to path), and their quarantine tables."""
    private = set()
    for name, path in tables.items():
        state = table_state(path)
        if state is not None and is_private(state.properties):
            private.add(name)
    quarantines = {name for name in tables if quarantined_dataset(name) in private}
    return frozenset(private | quarantines)


def quarantined_dataset(name: QualifiedName) -> QualifiedName | None:
    """The dataset of a quarantine table, by its name; None for other names."""
    if not name.name.endswith(QUARANTINE_SUFFIX):
        return None
    return QualifiedName(name.name[: -len(QUARANTINE_SUFFIX)], name.schema, name.catalog)
