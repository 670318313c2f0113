"""Our own file beside a flow's checkpoints: its epoch and what it last ran with.

The file is written in one rename. It is advice about progress, never the proof of it: exactly-once rests on the
checkpoint and on the transaction ids in the target.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.cdc.snapshot_versions import Begun
from headrace.delta_log.tables import TableVersion
from headrace.errors import InternalError
from headrace.graph.resolved import MadeWith, Mode, StatefulOperator

_FORMAT = 2


@dataclass(frozen=True)
class FlowRecord:
    """The state of one flow.

    ``counted_version`` is the version of the target up to which the commits of a native stream are in the event log.
    ``resetting`` is set while a reset is under way, so that a crash in the middle of it is finished by the next update,
    and ``accepted`` with it once nothing is asked about it any more: the clearing has begun, or rows that it loses were
    given up. ``epoch`` counts the checkpoints the flow has had. ``inputs`` are the versions of the tables that a
    materialized view was computed from, by their names or, outside of the pipeline, by their paths; ``target_id`` is
    the table that it was written to. ``confs`` were in force when the checkpoint was made and are applied again (D8).
    ``sources`` are digests of the sources. ``running`` is set from the start of a stream until all that it committed is
    in the event log.

    ``flow`` and ``dataset`` are the names under which the record was written, ``mode`` is the flow's. ``identity`` is
    the name that the flow's transactions and its rows in quarantine carry: the one it began with, whatever it was
    renamed to. ``formerly`` has its other names in the event log, each with the last epoch that it ran in under it.
    ``first_epoch`` is the first one whose rows are in the table; ``cut`` says that rows were lost when it, or one
    before it, began. ``made_with`` is the part of the query that its checkpoint depends on; None when that is not
    noted. ``snapshot`` is the last one that a flow which compares snapshots has begun; it is in the table unless
    ``running`` says that this is still to be looked for. ``delivery`` names what a flow delivers to a sink in its
    epoch, by a name that nothing else in the world has; empty before the first batch. ``left`` are the versions in
    which the flow left its own tables when it last ended, each by what it is: the target, its quarantine, its memory.
    Later an earlier version is a restored copy. ``unreadable`` says what is wrong with a file that is no record:
    nothing is known of the flow then, and it does not run. ``pipeline`` is the pipeline's id in the flow's
    transactions, which a new name of the pipeline does not change; empty in records of version 0.1.
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
    formerly: Mapping[str, int] = field(default_factory=dict)
    first_epoch: int = 0
    cut: bool = False
    made_with: MadeWith | None = None
    snapshot: Begun | None = None
    delivery: str = ""
    left: Mapping[str, TableVersion] = field(default_factory=dict)
    unreadable: str = ""
    pipeline: str = ""

    def cleared(self, epoch: int, *, cut: bool) -> FlowRecord:
        """The record of a flow whose table was cleared: nothing is read yet in the new epoch.

        Rows that an earlier clearing has lost stay lost: who read them before cannot read them again.
        """
        return replace(self._fresh(epoch), first_epoch=epoch, cut=cut or self.cut)

    def restarted(self, epoch: int) -> FlowRecord:
        """The record of a flow that begins a new epoch while its table keeps its rows."""
        return replace(self._fresh(epoch), first_epoch=self.first_epoch, cut=self.cut)

    def _fresh(self, epoch: int) -> FlowRecord:
        return FlowRecord(
            epoch=epoch,
            flow=self.flow,
            dataset=self.dataset,
            mode=self.mode,
            identity=self.identity,
            formerly=self.formerly,
            pipeline=self.pipeline,
        )

    def to_json(self) -> dict[str, Any]:
        """The record as stored."""
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
            "formerly": dict(self.formerly),
            "first_epoch": self.first_epoch,
            "cut": self.cut,
            "made_with": None if self.made_with is None else _made_json(self.made_with),
            "snapshot": None if self.snapshot is None else self.snapshot.to_json(),
            "delivery": self.delivery,
            "left": _versions_json(self.left),
            "pipeline": self.pipeline,
        }


class _NewerFormat(Exception):
    """A record of a later version."""


def read_record(file: Path) -> FlowRecord | None:
    """The record of a flow, or None when the flow never ran.

    One that cannot be read says so in ``unreadable``, so that the other flows of the pipeline are not stopped by it.
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
        raise _NewerFormat(f"a later version of Headrace has written it, in format {raw['format']}")
    # The first format knew the versions of inputs but not of which table, which is no knowledge; and it had sources in
    # clear, which start the flow once more as changed ones do.
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
        formerly={str(name): int(epoch) for name, epoch in raw.get("formerly", {}).items()},
        # Before records had it, nothing but a full refresh began an epoch.
        first_epoch=int(raw.get("first_epoch", raw["epoch"])),
        cut=bool(raw.get("cut", False)),
        made_with=_made_from(raw["made_with"]) if raw.get("made_with") else None,
        snapshot=Begun.from_json(raw["snapshot"]) if raw.get("snapshot") else None,
        delivery=str(raw.get("delivery", "")),
        left=_versions_from(raw.get("left", {})),
        pipeline=str(raw.get("pipeline", "")),
    )


def next_epoch(file: Path, record: FlowRecord) -> int:
    """The epoch that comes after that of a record: the next one in which nothing was ever read.

    A crash may have left a checkpoint that no record names.
    """
    epoch = record.epoch + 1
    while (file.parent / str(epoch)).exists():
        epoch += 1
    return epoch


def write_record(file: Path, record: FlowRecord) -> None:
    """Store a record so that a reader, or a restart after a crash, sees the old or the new one whole."""
    if record.unreadable:
        raise InternalError(f"{file} cannot be read, and is to be written")
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(record.to_json(), stream, indent=1, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def _versions_json(versions: Mapping[str, TableVersion]) -> dict[str, Any]:
    return {name: [known.table_id, known.version] for name, known in versions.items()}


def _versions_from(raw: Mapping[str, Any]) -> dict[str, TableVersion]:
    return {str(name): TableVersion(str(known[0]), int(known[1])) for name, known in raw.items()}


def _made_json(made: MadeWith) -> dict[str, Any]:
    operators = [[known.kind, known.digest, known.description, known.types] for known in made.operators]
    return {"mode": made.mode.value, "operators": operators}


def _made_from(raw: Any) -> MadeWith:
    return MadeWith(Mode(raw["mode"]), tuple(StatefulOperator(*map(str, entry)) for entry in raw["operators"]))
