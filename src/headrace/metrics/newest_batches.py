"""The newest batch of each flow and epoch, by which repeated records of a batch are recognised."""

from __future__ import annotations

from typing import Any

from headrace.events.types import BatchDone


class NewestBatches:
    """The newest batch by epoch, flow and dataset, and the update that recorded it."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, str]] = {}

    def add(self, event: BatchDone, update_id: str) -> bool:
        """Add a batch; False if it was recorded before: of several records of a batch only the first counts.

        The numbers of an epoch increase, unless a table was deleted: then a later update begins with lower ones.
        """
        key = f"{event.epoch} {event.flow} {event.dataset}"
        batch_id, recorded_by = self._newest.get(key, (-1, ""))
        if event.batch_id == batch_id or (event.batch_id < batch_id and recorded_by == update_id):
            return False
        self._newest[key] = (event.batch_id, update_id)
        return True

    def of(self, flow: str, dataset: str) -> tuple[int, int] | None:
        """The newest epoch of a flow and its newest batch; None without one. Backfills do not count."""
        of_epochs = ((key.partition(" "), batch_id) for key, (batch_id, _) in self._newest.items())
        found = [(int(epoch), batch_id) for (epoch, _, rest), batch_id in of_epochs if rest == f"{flow} {dataset}"]
        return max((one for one in found if one[0] >= 0), default=None)

    def to_json(self) -> dict[str, Any]:
        """Everything that the next batches need."""
        return dict(self._newest)

    @classmethod
    def from_json(cls, given: Any) -> NewestBatches:
        """The batches of :meth:`to_json`; raises TypeError, AttributeError or ValueError for something else."""
        found = cls()
        found._newest = {str(key): (int(number), str(update_id)) for key, (number, update_id) in given.items()}
        return found
