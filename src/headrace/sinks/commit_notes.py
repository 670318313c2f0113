"""What a sink notes of the last batch that it has taken, and whether that is the batch that comes now.

The number alone does not tell: a storage that was copied back, or one of two copies of it, gives the next number to
other rows. So a note has what the batch ended at as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import PipelineError

NOTHING = -1


@dataclass(frozen=True)
class Note:
    """The last batch that a sink has taken of a flow's epoch.

    Attributes:
        batch: its number; -1 before the first.
        positions: a digest of where the batch ended in its sources; empty where that is not known.
    """

    batch: int = NOTHING
    positions: str = ""

    def has(self, batch: int, positions: str, sink: str) -> bool:
        """True when the sink has a batch, False when it comes next.

        Args:
            batch: its number.
            positions: a digest of where it ends; empty where that is not known.
            sink: what is written to, for the reader.

        Raises:
            PipelineError: SINK.OTHER_BATCH: the sink has gone further, or has other rows under this number.
        """
        if self.batch < batch:
            return False
        other = bool(positions and self.positions and positions != self.positions)
        if self.batch > batch or other:
            noted = f"batch {self.batch}" if self.batch > batch else f"other rows as batch {self.batch}"
            raise PipelineError("SINK.OTHER_BATCH", sink=sink, noted=noted, batch=batch)
        return True
