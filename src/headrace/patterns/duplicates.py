"""Remove duplicate events."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.patterns.arguments import check_columns, with_event_time


def deduplicate(
    events: DataFrame, keys: str | Sequence[str], *, at: str | None = None, within: str | None = None
) -> DataFrame:
    """Keep the first event of each key that arrives.

    With *within*, a key leaves the state when the watermark is that long past its first event: of two events of a key
    within that time, one is kept; of others, both may be kept. Without *at*, keys stay in the state forever.

    Args:
        events: a batch, of which one event of each key is kept, or a stream.
        keys: the key columns; NULL counts as a value.
        at: the event time column.
        within: the maximum time between duplicates, such as ``1 hour``. None, with *at*: the stream already has such a
            watermark.

    Returns:
        The columns of *events*.

    Raises:
        PipelineError: PATTERN.*.
    """
    keyed = check_columns("deduplicate", events, keys)
    if at is None:
        if within is not None:
            raise PipelineError("PATTERN.NO_AT")
        return events.dropDuplicates(keyed)
    known = with_event_time("deduplicate", events, at, within)
    # A batch has no watermark.
    return known.dropDuplicatesWithinWatermark(keyed) if events.isStreaming else events.dropDuplicates(keyed)
