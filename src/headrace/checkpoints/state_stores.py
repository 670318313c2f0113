"""The state stores of a checkpoint: what each stateful operator is, and how much each of its partitions holds.

Source: Spark's ``OperatorStateMetadata``: ``state/<operator>/_metadata/metadata`` in version 1, and ``v2/<batch>`` in
version 2, each a line with the version and a line of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.checkpoints.state_size import STATE_FILE, store_folders, store_size
from headrace.stores.paths import StoragePath, relative_path

# Spark's names of stateful operators, in the words of its documentation.
_OPERATORS: Mapping[str, str] = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "aggregation by session window",
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication within the watermark",
    "symmetricHashJoin": "stream-stream join",
    "globalLimit": "limit",
    "flatMapGroupsWithState": "function with state",
    "applyInPandasWithState": "function with state",
    "transformWithStateExec": "transformWithState",
    "transformWithStateInPySparkExec": "transformWithState",
    "transformWithStateInPandasExec": "transformWithState",
}
JOIN = "stream-stream join"
FUNCTION = "transformWithState"


@dataclass(frozen=True)
class StateStore:
    """One state store of one partition.

    Attributes:
        name: of the store; an operator has several if it keeps rows of several kinds.
        partition: its number.
        version: the newest version in the folder; 0 for none. A version follows each batch.
        files: the number of its files with state.
        size_bytes: the approximate size of the newest version.
    """

    name: str
    partition: int
    version: int
    files: int
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The store for programs."""
        return {
            "store": self.name,
            "partition": self.partition,
            "version": self.version,
            "files": self.files,
            "bytes": self.size_bytes,
        }


@dataclass(frozen=True)
class StateOperator:
    """A stateful operator.

    Attributes:
        number: Spark's number of it.
        name: what it does; Spark's name if that is not known, empty without metadata.
        stores: its state stores.
        variables: the state variables of ``transformWithState``.
    """

    number: int
    name: str
    stores: tuple[StateStore, ...]
    variables: tuple[str, ...] = ()

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len({store.partition for store in self.stores})

    @property
    def files(self) -> int:
        """The number of files with state."""
        return sum(store.files for store in self.stores)

    @property
    def size_bytes(self) -> int:
        """The approximate size of its newest version."""
        return sum(store.size_bytes for store in self.stores)

    def to_json(self) -> dict[str, Any]:
        """The operator for programs."""
        return {
            "operator": self.number,
            "name": self.name,
            "variables": list(self.variables),
            "partitions": self.partitions,
            "files": self.files,
            "bytes": self.size_bytes,
            "stores": [store.to_json() for store in self.stores],
        }


def state_operators(checkpoint: StoragePath) -> tuple[StateOperator, ...]:
    """The stateful operators of a checkpoint, in the order of Spark's numbers; empty before the first batch."""
    try:
        folders = [entry for entry in (checkpoint / "state").iterdir() if entry.name.isdigit()]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(_operator(folder) for folder in sorted(folders, key=lambda folder: int(folder.name)))


def _operator(folder: StoragePath) -> StateOperator:
    metadata = _metadata(folder / "_metadata")
    named = str(metadata.get("operatorInfo", {}).get("operatorName", ""))
    stores = sorted(_stores(folder), key=lambda store: (store.partition, store.name))
    return StateOperator(int(folder.name), _OPERATORS.get(named, named), tuple(stores), _variables(metadata))


def _stores(folder: StoragePath) -> Iterator[StateStore]:
    for store in store_folders(folder):
        partition, *name = relative_path(store, folder).parts
        if partition.isdigit():
            found = [match for file in store.iterdir() if (match := STATE_FILE.fullmatch(file.name))]
            version = max((int(match["version"]) for match in found), default=0)
            yield StateStore("/".join(name) or "default", int(partition), version, len(found), store_size(store))


def _metadata(folder: StoragePath) -> Mapping[str, Any]:
    """The newest description of an operator; empty if there is none, or if a crash cut it off."""
    later = [file for file in (folder / "v2").glob("*") if file.name.isdigit()]
    newest = max(later, key=lambda file: int(file.name), default=folder / "metadata")
    try:
        found = json.loads(newest.read_text(encoding="utf-8").partition("\n")[2])
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _variables(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        properties = json.loads(metadata.get("operatorPropertiesJson") or "{}")
        return tuple(str(one["stateName"]) for one in properties.get("stateVariables", ()))
    except (ValueError, LookupError, TypeError, AttributeError):
        return ()
