"""Places in an update where a test may let it die; every other update walks past them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias


class Failpoint(str, Enum):
    """Between two writes that a crash can part; the value says what was just stored, or is stored next."""

    TO_SET_ASIDE = "to set aside"  # a batch is judged, its quarantine rows are stored next
    TO_WRITE = "to write"  # the rows of a batch go into its target next
    REMEMBERED = "remembered"  # what late events will need is stored, the batch is not in its target
    FORGOTTEN = "forgotten"  # what is remembered no longer is taken out, no batch of the update is in its target
    QUARANTINED = "quarantined"  # a batch's quarantine rows are stored, its target is not
    WRITTEN = "written"  # a batch is in its target, its counts are not in the event log
    STAGED = "staged"  # the rows of a batch are aside, where their sink takes them from
    TO_PUBLISH = "to publish"  # a file of a batch gets its name next
    PUBLISHED = "published"  # all files of a batch have their names, which is not noted
    WAITS = "waits"  # a batch waits in the storage for a sink that is down, which is not noted
    CAUGHT_UP = "caught up"  # a sink has a batch that had to wait, the batch is still in the storage
    NOTED = "noted"  # it is noted that one of several sinks has a batch
    MARKED = "marked"  # rows that were set aside are marked as replayed, the replay is not recorded as done
    COUNTED = "counted"  # a batch is counted, Spark (or the flow's record) does not know that it is done
    RESET_BEGUN = "reset begun"  # a reset is announced, nothing is cleared
    RESET_ASIDE = "reset aside"  # the quarantine table is cleared, the table is not
    RENAMED = "renamed"  # one of the folders of a renamed dataset or flow is moved
    SEEDED = "seeded"  # the checkpoint of a flow's new epoch is stored, the flow is still in its old one
    FENCED = "fenced"  # the stream begins behind a load, the load is not recorded as done
    RESET_CLEARED = "reset cleared"  # both are cleared, the flows are still in their old epochs
    RESET_DONE = "reset done"  # the flows are in their new epochs, none of them has begun


Failpoints: TypeAlias = Callable[[Failpoint], None]


def walk_past(point: Failpoint) -> None:
    """Go on: what a seam does outside of tests."""
