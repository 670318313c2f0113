"""What a savepoint has: a file that is written last, so that a savepoint is whole or does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

FORMAT = 1


class SavepointKind(str, Enum):
    """Why a savepoint was made."""

    MANUAL = "manual"
    SCHEDULED = "scheduled"
    BEFORE_UPDATE = "before-update"
    BEFORE_PLAN = "before-plan"
    BEFORE_RESTORE = "before-restore"
    BEFORE_SWAP = "before-swap"


@dataclass(frozen=True)
class SavedTable:
    """A table of the storage as it was.

    Attributes:
        name: what it is, in words.
        dataset: the dataset that it belongs to.
        role: its role for the flows of the dataset.
        path: where it was, relative to the storage.
        table_id: Delta's id of it.
        version: the version that has exactly the batches of the savepoint.
        files: the data files of this version.
        size_bytes: their bytes.
        rows: its rows; None if its log does not say.
        pinned: whether the savepoint has links to all of these files, so that it needs no other copy of them.
    """

    name: str
    dataset: str
    role: str
    path: str
    table_id: str
    version: int
    files: int = 0
    size_bytes: int = 0
    rows: int | None = None
    pinned: bool = False


@dataclass(frozen=True)
class SavedFlow:
    """A flow as it was.

    Attributes:
        name: its name.
        dataset: the dataset that it writes to.
        identity: its name in transactions, which a rename does not change.
        mode: how it ran.
        folder: where its record was, relative to the storage.
        epoch: its epoch.
        batch: its newest completed batch; None for none.
        committed: the newest batch of its epoch in the table; None for none.
        files: the files of its checkpoint.
        size_bytes: their bytes.
        backfills: the numbers of its backfills and replays.
        is_sink: whether it writes to a sink, whose deliveries cannot be taken back.
    """

    name: str
    dataset: str
    identity: str
    mode: str
    folder: str
    epoch: int
    batch: int | None = None
    committed: int | None = None
    files: int = 0
    size_bytes: int = 0
    backfills: tuple[int, ...] = ()
    is_sink: bool = False


@dataclass(frozen=True)
class Savepoint:
    """A savepoint.

    Attributes:
        id: unique in the storage.
        name: as the user called it; empty for none.
        kind: why it was made.
        made_at: when, in seconds since 1970.
        made_by: the user; None if the system has no name for them.
        pipeline: the id of the pipeline.
        made_with: the versions of Headrace, Spark, Delta and Python.
        code_digest: of the project's files of the newest update; empty if that is unknown.
        has_code: whether these files are in it.
        plan_id: the approved plan that was applied next; empty for none.
        tables: the tables.
        flows: the flows.
    """

    id: str
    name: str
    kind: SavepointKind
    made_at: float
    made_by: str | None
    pipeline: str
    made_with: Mapping[str, str]
    code_digest: str
    has_code: bool
    tables: tuple[SavedTable, ...]
    flows: tuple[SavedFlow, ...]
    plan_id: str = ""

    @property
    def label(self) -> str:
        """Its name and its id."""
        return f"{self.name} ({self.id})" if self.name else self.id

    @property
    def size_bytes(self) -> int:
        """The bytes of the files that a restore needs."""
        return sum(table.size_bytes for table in self.tables) + sum(flow.size_bytes for flow in self.flows)

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {"format": FORMAT, **asdict(self), "kind": self.kind.value}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Savepoint:
        """The inverse of :meth:`to_json`.

        Raises:
            LookupError, TypeError, ValueError: it is not the content of such a file, or a later version wrote it.
        """
        if document["format"] > FORMAT:
            raise ValueError(f"it was written by a later version of Headrace, in format {document['format']}")
        known = {key: document[key] for key in Savepoint.__dataclass_fields__}
        flows = tuple(_all(SavedFlow, map(_with_backfills, document["flows"])))
        tables = tuple(_all(SavedTable, document["tables"]))
        return Savepoint(**{**known, "kind": SavepointKind(document["kind"]), "tables": tables, "flows": flows})


def _with_backfills(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**document, "backfills": tuple(document.get("backfills", ()))}


def _all(kind: Any, documents: Any) -> list[Any]:
    fields = kind.__dataclass_fields__.keys()
    return [
        kind(**(document if document.keys() <= fields else {key: document[key] for key in fields & document.keys()}))
        for document in documents
    ]
