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

from headrace.graph.resolved import Source

_FORMAT = 1


@dataclass(frozen=True)
class FlowRecord:
    """The state of one flow.

    ``counted_version`` is the version of the target up to which the commits of a native stream are in the event log.
    ``resetting`` is set while a reset is under way, so that a crash in the middle of it is finished by the next update.
    ``epoch`` counts the checkpoints the flow has had. ``inputs`` are the versions of the tables that a materialized
    view was computed from. ``confs`` were in force when the checkpoint was made and are applied again (D8).
    """

    epoch: int = 0
    fingerprint: str = ""
    sources: tuple[Source, ...] = ()
    started_at: float = 0.0
    inputs: Mapping[str, int] = field(default_factory=dict)
    confs: Mapping[str, str] = field(default_factory=dict)
    counted_version: int = -1
    resetting: bool = False

    def to_json(self) -> dict[str, Any]:
        """The record as stored."""
        return {
            "format": _FORMAT,
            "epoch": self.epoch,
            "fingerprint": self.fingerprint,
            "sources": [source.to_json() for source in self.sources],
            "started_at": self.started_at,
            "inputs": dict(self.inputs),
            "confs": dict(self.confs),
            "counted_version": self.counted_version,
            "resetting": self.resetting,
        }


def read_record(file: Path) -> FlowRecord | None:
    """The record of a flow, or None when the flow never ran."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return FlowRecord(
        epoch=int(raw["epoch"]),
        fingerprint=str(raw["fingerprint"]),
        sources=tuple(Source.from_json(source) for source in raw["sources"]),
        started_at=float(raw["started_at"]),
        inputs={str(name): int(version) for name, version in raw["inputs"].items()},
        confs={str(key): str(value) for key, value in raw["confs"].items()},
        counted_version=int(raw["counted_version"]),
        resetting=bool(raw["resetting"]),
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
