"""Checkpoints of flows in the storage of a shop, as Spark and an update leave them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.unit.serve.conftest import Shop

from headrace.settings.load import load_settings
from headrace.storage.flow_record import FlowRecord, write_record


def stored_checkpoint(
    shop: Shop,
    flow: str,
    *offsets: Any,
    batch: int = 0,
    is_done: bool = True,
    epoch: int = 0,
    mode: str = "append",
    files: Iterable[str] = (),
) -> Path:
    """Write the record of a flow, and its checkpoint after a batch; returns the folder of the flow.

    Args:
        shop: whose storage gets them.
        flow: its name, which is that of its dataset, too.
        offsets: of its sources, after the batch.
        batch: the newest one that was planned a minute ago.
        is_done: whether it was completed.
        epoch: of the checkpoint.
        mode: of the flow.
        files: that its first source has listed.
    """
    settings = load_settings(shop.root / "pipeline.yml", environ={})
    file = Path(settings.layout.flow_state(settings.naming, settings.naming.canonical(flow), flow))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_record(file, FlowRecord(started_at=1.0, flow=flow, dataset=flow, mode=mode, epoch=epoch))
    if mode not in ("append", "update", "complete", "merge"):
        return file.parent
    checkpoint = file.parent / str(epoch)
    for name in ("offsets", "commits", "sources/0"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "3f2d"}))
    listed = "".join(f"\n{json.dumps({'path': f'file://{one}', 'timestamp': 1, 'batchId': 0})}" for one in files)
    (checkpoint / "sources" / "0" / "0").write_text(f"v1{listed}")
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": round(1000 * (shop.clock.seconds() - 60))})
    positions = "".join(f"\n{json.dumps(offset)}" for offset in offsets)
    for number in range(max(batch - 1, 0), batch + 1):
        (checkpoint / "offsets" / str(number)).write_text(f"v1\n{metadata}{positions}")
        if number < batch or is_done:
            (checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return file.parent
