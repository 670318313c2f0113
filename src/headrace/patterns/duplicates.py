"""Events of which each is kept once."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.patterns.given import names, timed


def deduplicate(
    events: DataFrame, keys: str | Sequence[str], *, at: str | None = None, within: str | None = None
) -> DataFrame:
    """The first event of each key that comes.

    With *within*, the state forgets a key once the watermark is that long past its first event: of two events of a key
    that are no further apart one is kept, and of others perhaps both. Without *at*, keys are remembered for ever.

    Args:
        events: a batch, of which one event of each key is kept, or a stream.
        keys: columns; NULL is a value as any other.
        at: the column of the events' time.
        within: how far apart duplicates come, such as ``1 hour``. None, with *at*: the stream has a watermark of that.

    Returns:
        The columns of *events*.

    Raises:
        PipelineError: PATTERN.*.
    """
    keyed = names("deduplicate", events, keys)
    if at is None:
        if within is not None:
            raise PipelineError("PATTERN.NO_AT")
        return events.dropDuplicates(keyed)
    known = timed("deduplicate", events, at, within)
    # Over a batch Spark has no watermark to go by.
    return known.dropDuplicatesWithinWatermark(keyed) if events.isStreaming else events.dropDuplicates(keyed)
