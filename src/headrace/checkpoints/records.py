"""Our own file beside a flow's checkpoints: its epoch and what it last ran with.

The file is written in one rename. It is advice about progress, never the proof of it: exactly-once rests on the
checkpoint and on the transaction ids in the target.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FORMAT = 2


@dataclass(frozen=True)
class TableVersion:
    """A version of one table; a table that was deleted and made anew has another id."""

    table_id: str
    version: int


@dataclass(frozen=True)
class FlowRecord:
    """The state of one flow.

    ``counted_version`` is the version of the target up to which the commits of a native stream are in the event log.
    ``resetting`` is set while a reset is under way, so that a crash in the middle of it is finished by the next
    update. ``epoch`` counts the checkpoints the flow has had. ``inputs`` are the versions of the tables that a
    materialized view was computed from, ``target_id`` is the table that it was written to. ``confs`` were in force
    when the checkpoint was made and are applied again (D8). ``sources`` are digests of the sources. ``running`` is
    set from the start of a stream until all that it committed is in the event log.
    """

    epoch: int = 0
    fingerprint: str = ""
    sources: tuple[str, ...] = ()
    started_at: float = 0.0
    inputs: Mapping[str, TableVersion] = field(default_factory=dict)
    confs: Mapping[str, str] = field(default_factory=dict)
    counted_version: int = -1
    resetting: bool = False
    target_id: str = ""
    running: bool = False

    def to_json(self) -> dict[str, Any]:
        """The record as stored."""
        return {
            "format": _FORMAT,
            "epoch": self.epoch,
            "fingerprint": self.fingerprint,
            "sources": list(self.sources),
            "started_at": self.started_at,
            "inputs": {name: [known.table_id, known.version] for name, known in self.inputs.items()},
            "confs": dict(self.confs),
            "counted_version": self.counted_version,
            "resetting": self.resetting,
            "target_id": self.target_id,
            "running": self.running,
        }


def read_record(file: Path) -> FlowRecord | None:
    """The record of a flow, or None when the flow never ran."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    # The first format knew the versions of inputs but not of which table, which is no knowledge; and it had sources in
    # clear, which start the flow once more as changed ones do.
    inputs, sources = (raw["inputs"], raw["sources"]) if raw["format"] >= _FORMAT else ({}, [])
    return FlowRecord(
        epoch=int(raw["epoch"]),
        fingerprint=str(raw["fingerprint"]),
        sources=tuple(map(str, sources)),
        started_at=float(raw["started_at"]),
        inputs={str(name): TableVersion(str(known[0]), int(known[1])) for name, known in inputs.items()},
        confs={str(key): str(value) for key, value in raw["confs"].items()},
        counted_version=int(raw["counted_version"]),
        resetting=bool(raw["resetting"]),
        target_id=str(raw.get("target_id", "")),
        running=bool(raw.get("running", False)),
    )


def write_record(file: Path, record: FlowRecord) -> None:
    """Store a record so that a reader, or a restart after a crash, sees the old or the new one whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump(record.to_json(), stream, indent=1, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
