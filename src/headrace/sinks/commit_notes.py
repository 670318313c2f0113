"""A sink's record of the last batch that it has committed, by which it recognizes a repeated batch.

The batch number alone is not enough: a storage that was restored or copied gives the next number to other rows. So the
record also holds where the batch ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import PipelineError

NO_BATCH = -1


@dataclass(frozen=True)
class CommitRecord:
    """The last batch of a flow's epoch that a sink has committed.

    Attributes:
        batch: its number; -1 before the first.
        positions: a digest of the batch's end in its sources; empty if unknown.
    """

    batch: int = NO_BATCH
    positions: str = ""

    def includes(self, batch: int, positions: str, sink: str) -> bool:
        """True if the sink has the batch, False if the batch comes next.

        Args:
            batch: its number.
            positions: a digest of its end; empty if unknown.
            sink: the sink for people.

        Raises:
            PipelineError: SINK.OTHER_BATCH: the sink has a later batch, or other rows under this number.
        """
        if self.batch < batch:
            return False
        other = bool(positions and self.positions and positions != self.positions)
        if self.batch > batch or other:
            noted = f"batch {self.batch}" if self.batch > batch else f"different rows for batch {self.batch}"
            raise PipelineError("SINK.OTHER_BATCH", sink=sink, noted=noted, batch=batch)
        return True
