"""The metrics that functions of sinks recorded with a batch, from its delivery until it is in the event log.

One small file for each epoch of a flow, with its last batch. Without it, a crash after the delivery would lose them,
because a delivered batch is not given to the function again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from headrace.atomic_write import replace_file
from headrace.model.custom_metrics import MetricValue
from headrace.stores.paths import StoragePath

_FORMAT = 1


def recorded_metrics(folder: StoragePath, epoch: int, batch_id: int) -> dict[str, tuple[MetricValue, ...]]:
    """What was recorded with a batch, by the name of the sink; nothing if the file is damaged or of another version.

    Args:
        folder: the flow's folder, with its record.
        epoch: of the flow.
        batch_id: the batch.
    """
    try:
        found = json.loads(_file(folder, epoch).read_bytes())
        if found["format"] != _FORMAT or found["batch"] != batch_id:
            return {}
        return {str(sink): tuple(map(MetricValue.from_json, values)) for sink, values in found["sinks"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def store_recorded_metrics(
    folder: StoragePath, epoch: int, batch_id: int, by_sink: Mapping[str, Iterable[MetricValue]]
) -> None:
    """Store what :func:`recorded_metrics` returns; the write is atomic."""
    folder.mkdir(parents=True, exist_ok=True)
    sinks = {sink: [value.to_json() for value in values] for sink, values in by_sink.items()}
    document = {"format": _FORMAT, "batch": batch_id, "sinks": sinks}
    replace_file(_file(folder, epoch), json.dumps(document, sort_keys=True))


def _file(folder: StoragePath, epoch: int) -> StoragePath:
    return folder / f"metrics-{epoch}.json"
