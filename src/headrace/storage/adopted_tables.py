"""Tables of a pipeline that lie outside of its storage, and tables that have left it: a record of each.

In the place of an adopted table, the storage has a symbolic link to where the table lies. So everything that works by
path works with it, and what removes the place removes the link alone. The record says that the link is meant, which
table it has to lead to, how far the job had come that filled it, and what the user allows to be done with its files and
rows. It is in ``system/adopted``, under the id of the table, so that a rename of the dataset does not change it.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.atomic_write import replace_file
from headrace.checkpoints.offsets import newest_batches
from headrace.delta_log.tables import open_table_log
from headrace.errors import PipelineError
from headrace.plan.agreement import NONE, Disagreement
from headrace.settings.storage import StorageLayout, path_safe
from headrace.stores.paths import StoragePath, storage_path

_FORMAT = 1


class Handover(str, Enum):
    """Where a table is on its way into the pipeline, or out of it."""

    ADOPTING = "adopting"
    ADOPTED = "adopted"
    RELEASING = "releasing"
    RELEASED = "released"


class Consent(str, Enum):
    """What the user can allow to be done with an adopted table."""

    MAINTAIN = "maintain"
    CLEAR = "clear"
    ERASE = "erase"


@dataclass(frozen=True)
class MovedFlow:
    """The progress of a flow that came from a job with its table, or leaves to one.

    Attributes:
        flow: its name.
        checkpoint: the checkpoint of the job; empty without one.
        query_id: the id of the job's query.
        planned: the newest planned batch of that checkpoint; -1 for none.
        committed: the newest batch that the table has; -1 for none.
        epoch: the flow's epoch that the checkpoint belongs to.
        own_query_id: the id of the flow's query in that epoch.
    """

    flow: str
    checkpoint: str
    query_id: str
    planned: int
    committed: int
    epoch: int
    own_query_id: str = ""

    def to_json(self) -> dict[str, Any]:
        """The value as JSON; the keys are those of the stored format."""
        return {
            "flow": self.flow,
            "checkpoint": self.checkpoint,
            "query_id": self.query_id,
            "planned": self.planned,
            "committed": self.committed,
            "epoch": self.epoch,
            "own_query_id": self.own_query_id,
        }

    @classmethod
    def from_json(cls, raw: Any) -> MovedFlow:
        """The inverse of :meth:`to_json`."""
        return cls(
            str(raw["flow"]),
            str(raw["checkpoint"]),
            str(raw["query_id"]),
            int(raw["planned"]),
            int(raw["committed"]),
            int(raw["epoch"]),
            str(raw["own_query_id"]),
        )


@dataclass(frozen=True)
class TableRecord:
    """A table that was adopted, or released.

    Attributes:
        dataset: the name of its dataset at that time.
        location: its folder, without symbolic links.
        table_id: its id in Delta's log.
        storage: the storage of the pipeline, without symbolic links.
        state: where it is on its way.
        changed_at: when that changed, in seconds since 1970.
        flows: the progress that came, or left, with it.
        consents: what the user allows.
    """

    dataset: str
    location: str
    table_id: str
    storage: str
    state: Handover
    changed_at: float
    flows: tuple[MovedFlow, ...] = ()
    consents: frozenset[Consent] = frozenset()

    def allows(self, consent: Consent) -> bool:
        """Whether the user allows something."""
        return consent in self.consents

    def to_json(self) -> dict[str, Any]:
        """The record as JSON; the keys are those of the stored format."""
        return {
            "format": _FORMAT,
            "dataset": self.dataset,
            "location": self.location,
            "table_id": self.table_id,
            "storage": self.storage,
            "state": self.state.value,
            "changed_at": self.changed_at,
            "flows": [flow.to_json() for flow in self.flows],
            "allow": sorted(consent.value for consent in self.consents),
        }


class AdoptedTables:
    """The records of one storage, whose folder is ``root``. Only a storage on a disk has any.

    Args:
        layout: the paths in the storage.
    """

    def __init__(self, layout: StorageLayout) -> None:
        self.root = layout.root
        self._folder = storage_path(layout.root) / "system" / "adopted"

    def all(self) -> tuple[TableRecord, ...]:
        """All records, sorted by dataset.

        Raises:
            PipelineError: ADOPT.RECORD_UNREADABLE.
        """
        return tuple(sorted(self._read_all(), key=lambda record: (record.dataset, record.table_id)))

    def at(self, path: str) -> TableRecord | None:
        """The record of the adopted table that the storage has a link to at a path; None for any other table.

        Raises:
            PipelineError: ADOPT.RECORD_UNREADABLE.
        """
        # Few paths are links: nothing else is read for the others.
        if not os.path.islink(path):  # noqa: PTH114 - also the URI of a bucket
            return None
        location = os.path.realpath(path)
        return next((record for record in self._read_all() if record.location == location), None)

    def of(self, dataset: str, path: str) -> TableRecord | None:
        """The record of a dataset with its table at a path in the storage, also if the link is lost; or None.

        Raises:
            PipelineError: ADOPT.RECORD_UNREADABLE.
        """
        found = self.at(path)
        if found is not None:
            return found
        known = [record for record in self._read_all() if record.dataset.casefold() == dataset.casefold()]
        # A table that was released makes way for another of its name, which lies elsewhere.
        return next((one for one in known if one.state is not Handover.RELEASED or _is_at(one, path)), None)

    def released(self) -> frozenset[str]:
        """The locations of the tables that have left the pipeline.

        Raises:
            PipelineError: ADOPT.RECORD_UNREADABLE.
        """
        return frozenset(record.location for record in self._read_all() if record.state is Handover.RELEASED)

    def store(self, record: TableRecord) -> None:
        """Write a record; the write is atomic."""
        file = self._file(record.table_id)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps(record.to_json(), indent=1))

    def rename(self, old: str, new: str) -> None:
        """Store the new name of a dataset in the record of its adopted table; safe to repeat."""
        for record in self._read_all():
            if record.dataset.casefold() == old.casefold() and record.state is Handover.ADOPTED:
                self.store(replace(record, dataset=new))

    def remove(self, record: TableRecord) -> None:
        """Remove a record; nothing happens if it does not exist."""
        self._file(record.table_id).unlink(missing_ok=True)

    def problem_of(self, record: TableRecord, path: str) -> Disagreement | None:
        """Why a flow must not write to the table of a record; None if it may.

        Args:
            record: of the table.
            path: of the dataset's table in the storage.

        Raises:
            PipelineError: STORAGE.TABLE_UNREADABLE.
        """
        params = {"dataset": record.dataset, "folder": record.location, "path": path}
        if record.state is Handover.RELEASED:
            return Disagreement("RELEASE.RELEASED", params)
        if record.state in (Handover.ADOPTING, Handover.RELEASING):
            verb = "adopt" if record.state is Handover.ADOPTING else "release"
            return Disagreement("ADOPT.UNFINISHED", {**params, "verb": verb})
        if record.storage != os.path.realpath(self.root):
            return Disagreement("ADOPT.STORAGE_COPIED", {**params, "storage": record.storage, "now": self.root})
        if os.path.realpath(path) != record.location:
            return Disagreement("ADOPT.LINK_LOST", params)
        return _replaced(record, params) or _written_by_job(record, params)

    def _read_all(self) -> Iterator[TableRecord]:
        if not isinstance(self._folder, Path):
            return
        try:
            files = sorted(self._folder.glob("*.json"))
        except OSError:
            files = []
        yield from map(_read, files)

    def _file(self, table_id: str) -> StoragePath:
        return self._folder / f"{path_safe(table_id)}.json"


def needs_consent(record: TableRecord | None, consent: Consent) -> str:
    """Why something must not be done with a table, for the reader; empty if it may.

    Args:
        record: of an adopted table; None for any other.
        consent: what it needs.
    """
    if record is None or record.allows(consent):
        return ""
    command = f"headrace adopt {shlex.quote(record.dataset)} --allow {consent.value}"
    return f"the table is adopted and lies at {record.location}; to allow it: {command}"


def _read(file: Path) -> TableRecord:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        if raw["format"] > _FORMAT:
            reason = f"a later version of Headrace wrote it, in format {raw['format']}"
            raise PipelineError("ADOPT.RECORD_UNREADABLE", file=file, reason=reason)
        return TableRecord(
            str(raw["dataset"]),
            str(raw["location"]),
            str(raw["table_id"]),
            str(raw["storage"]),
            Handover(raw["state"]),
            float(raw["changed_at"]),
            tuple(map(MovedFlow.from_json, raw["flows"])),
            frozenset(map(Consent, raw["allow"])),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise PipelineError("ADOPT.RECORD_UNREADABLE", file=file, reason=type(error).__name__) from error


def _is_at(record: TableRecord, path: str) -> bool:
    return record.location == os.path.realpath(path) or not os.path.lexists(path)


def _replaced(record: TableRecord, params: dict[str, str]) -> Disagreement | None:
    table = open_table_log(record.location)
    if table is None:
        return Disagreement("ADOPT.TABLE_LOST", params)
    if str(table.metadata().id) != record.table_id:
        return Disagreement("ADOPT.TABLE_REPLACED", {**params, "known": record.table_id})
    for flow in record.flows:
        newest = table.transaction_version(flow.query_id) if flow.query_id else None
        if newest is not None and newest > flow.committed:
            reason = f"the table has batch {newest} of its query, and had batch {flow.committed} when it was adopted"
            return Disagreement("ADOPT.JOB_WRITES", {**params, "reason": reason, "checkpoint": flow.checkpoint})
    return None


def _written_by_job(record: TableRecord, params: dict[str, str]) -> Disagreement | None:
    """The problem of a job that goes on in its own checkpoint: not every writer leaves transactions."""
    for flow in record.flows:
        planned = newest_batches(storage_path(flow.checkpoint))[0] if flow.checkpoint else None
        if planned is not None and planned > max(flow.planned, NONE):
            reason = f"its checkpoint has planned batch {planned}, and had batch {flow.planned} when it was adopted"
            return Disagreement("ADOPT.JOB_WRITES", {**params, "reason": reason, "checkpoint": flow.checkpoint})
    return None
