"""The record of a flow, a file next to its checkpoints: its epoch and what it last ran with.

The write is atomic. The record is a hint about progress, never the proof of it: exactly-once rests on the checkpoint
and on the transaction ids in the target.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.atomic_write import replace_file
from headrace.cdc.snapshot_versions import SnapshotProgress
from headrace.checkpoints.epochs import epoch_numbers
from headrace.delta_log.tables import TableVersion
from headrace.errors import InternalError
from headrace.graph.analysis import StatefulOperator
from headrace.graph.resolved_flows import Mode, StateSignature
from headrace.model.refresh import RefreshCost
from headrace.stores.paths import StoragePath

_FORMAT = 2


@dataclass(frozen=True)
class FlowRecord:
    """The state of one flow.

    ``counted_version`` is the version of the target up to which the commits of Delta's own sink, which version 0.1
    used, are in the event log. ``resetting`` is set during a reset, so that the next update finishes a reset that
    crashed. ``accepted`` is set with it once the reset needs no more approval: clearing has started, or the loss of
    rows was accepted. ``epoch`` counts the checkpoints the flow has had. ``inputs`` are the versions of the tables that
    a materialized view was computed from, by name or, outside of the pipeline, by path; ``target_id`` is the id of the
    table that it was written to. ``confs`` were in force when the checkpoint was made and are applied again (D8).
    ``sources`` are digests of the sources. ``running`` is set from the start of a stream until all its commits are in
    the event log.

    ``flow`` and ``dataset`` are the names under which the record was written, ``mode`` is the flow's mode. ``identity``
    is the name in the flow's transactions and quarantine rows: its first name, which a rename does not change.
    ``former_names`` are its earlier names in the event log, each with the last epoch that ran under it.
    ``first_epoch`` is the first epoch whose rows are in the table; ``rows_lost`` means that rows were lost when this
    epoch, or an earlier one, started. ``state_signature`` is the part of the query that the checkpoint depends on; None
    if unknown. ``snapshot`` is the last one that a snapshot flow started with; it is in the table unless ``running`` is
    set, in which case the table has to be checked. ``delivery`` is the globally unique name of what the flow delivers
    to a sink in its epoch; empty before the first batch. ``table_versions`` are the versions of the flow's own tables
    (target, quarantine, retained events) when it last ended; a table at an older version was restored from a copy.
    ``unreadable`` says why the file cannot be read: nothing is known of the flow then, and it does not run.
    ``pipeline`` is the pipeline's id in the flow's transactions, which renaming the pipeline does not change; empty in
    records of version 0.1. ``cleaned`` is set once the flow's state was removed because it left the code; its table may
    still have its rows. ``code`` is the digest of the project's code that it last ran with; empty if unknown.
    ``refresh_costs`` are the costs of a view's last refreshes, by the way in which they were made.
    """

    epoch: int = 0
    fingerprint: str = ""
    sources: tuple[str, ...] = ()
    started_at: float = 0.0
    inputs: Mapping[str, TableVersion] = field(default_factory=dict)
    confs: Mapping[str, str] = field(default_factory=dict)
    counted_version: int = -1
    resetting: bool = False
    accepted: bool = False
    target_id: str = ""
    running: bool = False
    flow: str = ""
    dataset: str = ""
    mode: str = ""
    identity: str = ""
    former_names: Mapping[str, int] = field(default_factory=dict)
    first_epoch: int = 0
    rows_lost: bool = False
    state_signature: StateSignature | None = None
    snapshot: SnapshotProgress | None = None
    delivery: str = ""
    table_versions: Mapping[str, TableVersion] = field(default_factory=dict)
    unreadable: str = ""
    pipeline: str = ""
    cleaned: bool = False
    code: str = ""
    refresh_costs: Mapping[str, RefreshCost] = field(default_factory=dict)

    def cleared(self, epoch: int, *, rows_lost: bool) -> FlowRecord:
        """The record of a flow whose table was cleared: nothing is read yet in the new epoch.

        Rows that an earlier clearing lost stay lost: their readers cannot read them again.
        """
        return replace(self._fresh(epoch), first_epoch=epoch, rows_lost=rows_lost or self.rows_lost)

    def restarted(self, epoch: int) -> FlowRecord:
        """The record of a flow that starts a new epoch and keeps the rows of its table."""
        return replace(self._fresh(epoch), first_epoch=self.first_epoch, rows_lost=self.rows_lost)

    def _fresh(self, epoch: int) -> FlowRecord:
        return FlowRecord(
            epoch=epoch,
            flow=self.flow,
            dataset=self.dataset,
            mode=self.mode,
            identity=self.identity,
            former_names=self.former_names,
            pipeline=self.pipeline,
        )

    def to_json(self) -> dict[str, Any]:
        """The record as JSON; the keys are those of the stored format."""
        return {
            "format": _FORMAT,
            "epoch": self.epoch,
            "fingerprint": self.fingerprint,
            "sources": list(self.sources),
            "started_at": self.started_at,
            "inputs": _versions_json(self.inputs),
            "confs": dict(self.confs),
            "counted_version": self.counted_version,
            "resetting": self.resetting,
            "accepted": self.accepted,
            "target_id": self.target_id,
            "running": self.running,
            "flow": self.flow,
            "dataset": self.dataset,
            "mode": self.mode,
            "identity": self.identity,
            "formerly": dict(self.former_names),
            "first_epoch": self.first_epoch,
            "cut": self.rows_lost,
            "made_with": None if self.state_signature is None else _signature_json(self.state_signature),
            "snapshot": None if self.snapshot is None else self.snapshot.to_json(),
            "delivery": self.delivery,
            "left": _versions_json(self.table_versions),
            "pipeline": self.pipeline,
            "cleaned": self.cleaned,
            "code": self.code,
            "refresh_costs": {way: cost.to_json() for way, cost in self.refresh_costs.items()},
        }


class _NewerFormat(Exception):
    """The record was written by a later version."""


def read_record(file: StoragePath) -> FlowRecord | None:
    """The record of a flow, or None when the flow never ran.

    A record that cannot be read has the reason in ``unreadable``, so that it does not stop the pipeline's other flows.
    """
    try:
        return _from_json(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except _NewerFormat as newer:
        return FlowRecord(unreadable=str(newer))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return FlowRecord(unreadable=str(error).splitlines()[0] if str(error) else type(error).__name__)


def _from_json(raw: Any) -> FlowRecord:
    if raw["format"] > _FORMAT:
        raise _NewerFormat(f"it was written by a later version of Headrace, in format {raw['format']}")
    # The first format had versions of inputs without table ids, which cannot be used, and sources in clear text, which
    # start the flow once more, as changed sources do.
    inputs, sources = (raw["inputs"], raw["sources"]) if raw["format"] >= _FORMAT else ({}, [])
    return FlowRecord(
        epoch=int(raw["epoch"]),
        fingerprint=str(raw["fingerprint"]),
        sources=tuple(map(str, sources)),
        started_at=float(raw["started_at"]),
        inputs=_versions_from(inputs),
        confs={str(key): str(value) for key, value in raw["confs"].items()},
        counted_version=int(raw["counted_version"]),
        resetting=bool(raw["resetting"]),
        accepted=bool(raw.get("accepted", False)),
        target_id=str(raw.get("target_id", "")),
        running=bool(raw.get("running", False)),
        flow=str(raw.get("flow", "")),
        dataset=str(raw.get("dataset", "")),
        mode=str(raw.get("mode", "")),
        identity=str(raw.get("identity", "")),
        former_names={str(name): int(epoch) for name, epoch in raw.get("formerly", {}).items()},
        # Before records had it, only a full refresh started an epoch.
        first_epoch=int(raw.get("first_epoch", raw["epoch"])),
        rows_lost=bool(raw.get("cut", False)),
        state_signature=_signature_from(raw["made_with"]) if raw.get("made_with") else None,
        snapshot=SnapshotProgress.from_json(raw["snapshot"]) if raw.get("snapshot") else None,
        delivery=str(raw.get("delivery", "")),
        table_versions=_versions_from(raw.get("left", {})),
        pipeline=str(raw.get("pipeline", "")),
        cleaned=bool(raw.get("cleaned", False)),
        code=str(raw.get("code", "")),
        refresh_costs={way: RefreshCost.from_json(cost) for way, cost in raw.get("refresh_costs", {}).items()},
    )


def next_epoch(file: StoragePath, record: FlowRecord) -> int:
    """The next unused epoch after that of a record.

    A crash may have left checkpoints that no record names, and a record restored from a copy is older than them. A
    number is never used twice: the table would take new batches for those of the first use, and skip them.
    """
    return max(record.epoch, *epoch_numbers(file.parent), -1) + 1


def write_record(file: StoragePath, record: FlowRecord) -> None:
    """Store a record; the write is atomic."""
    if record.unreadable:
        raise InternalError(f"{file} cannot be read, and must not be overwritten")
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps(record.to_json(), indent=1, sort_keys=True))


def _versions_json(versions: Mapping[str, TableVersion]) -> dict[str, Any]:
    return {name: [known.table_id, known.version] for name, known in versions.items()}


def _versions_from(raw: Mapping[str, Any]) -> dict[str, TableVersion]:
    return {str(name): TableVersion(str(known[0]), int(known[1])) for name, known in raw.items()}


def _signature_json(signature: StateSignature) -> dict[str, Any]:
    operators = [[known.kind, known.digest, known.description, known.types] for known in signature.operators]
    return {"mode": signature.mode.value, "operators": operators}


def _signature_from(raw: Any) -> StateSignature:
    return StateSignature(Mode(raw["mode"]), tuple(StatefulOperator(*map(str, entry)) for entry in raw["operators"]))
