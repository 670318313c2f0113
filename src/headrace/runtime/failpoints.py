"""Points in an update at which a test can let it crash; outside of tests they do nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias


class Failpoint(str, Enum):
    """A point between two writes; the value names what was just stored, or what is stored next."""

    BEFORE_QUARANTINE = "to set aside"  # a batch is evaluated, its quarantine rows are stored next
    BEFORE_WRITE = "to write"  # the rows of a batch go into its target next
    EVENTS_RETAINED = "remembered"  # events that late events need are retained, the batch is not in its target
    EVENTS_EXPIRED = "forgotten"  # expired events are deleted, no batch of the update is in its target
    QUARANTINED = "quarantined"  # a batch's quarantine rows are stored, its target is not
    WRITTEN = "written"  # a batch is in its target, its counts are not in the event log
    STAGED = "staged"  # the rows of a batch are staged for their sink
    BEFORE_PUBLISH = "to publish"  # a file of a batch gets its final name next
    PUBLISHED = "published"  # all files of a batch have their final names, which is not recorded
    SPILLED = "waits"  # a batch is in the spill queue of its sink, which is not recorded
    SPILL_DELIVERED = "caught up"  # a sink has a spilled batch, the batch is still in the queue
    DELIVERY_RECORDED = "noted"  # it is recorded that one of several sinks has a batch
    MARKED_REPLAYED = "marked"  # quarantined rows are marked as replayed, the replay is not recorded as done
    COUNTED = "counted"  # a batch is counted, Spark (or the flow's record) has not committed it
    RESET_STARTED = "reset begun"  # a reset is recorded, nothing is cleared
    RESET_QUARANTINE_CLEARED = "reset aside"  # the quarantine table is cleared, the table is not
    RENAMED = "renamed"  # one of the folders of a renamed dataset or flow is moved
    CHECKPOINT_CREATED = "seeded"  # the checkpoint of a flow's new epoch exists, the flow is still in its old one
    STREAM_REPOSITIONED = "fenced"  # the stream starts after a backfill, the backfill is not recorded as done
    RESET_CLEARED = "reset cleared"  # both are cleared, the flows are still in their old epochs
    RESET_DONE = "reset done"  # the flows are in their new epochs, none of them has started

    # The names of version 0.1, which are public as ``headrace.testing.Failpoint``.
    TO_SET_ASIDE = BEFORE_QUARANTINE
    TO_WRITE = BEFORE_WRITE
    REMEMBERED = EVENTS_RETAINED
    FORGOTTEN = EVENTS_EXPIRED
    TO_PUBLISH = BEFORE_PUBLISH
    WAITS = SPILLED
    CAUGHT_UP = SPILL_DELIVERED
    NOTED = DELIVERY_RECORDED
    MARKED = MARKED_REPLAYED
    RESET_BEGUN = RESET_STARTED
    RESET_ASIDE = RESET_QUARANTINE_CLEARED
    SEEDED = CHECKPOINT_CREATED
    FENCED = STREAM_REPOSITIONED


Failpoints: TypeAlias = Callable[[Failpoint], None]


def no_failpoint(point: Failpoint) -> None:
    """Do nothing: the failpoint of every update outside of tests."""
