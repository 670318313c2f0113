"""Parts of an event log, as queries of delta-rs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum

from headrace.events.types import (
    BatchDone,
    RowsSampled,
    TableEvaluated,
    UpdateCreated,
    UpdateStateChanged,
)

# What views read of an event.
EXTRACTED_COLUMNS = ("id", "timestamp", "level", "event_type", "details")
EXTRACTED_ORIGIN = ("pipeline_id", "update_id", "dataset_name", "flow_name", "epoch", "batch_id")
# The same for Spark.
EXTRACT_DDL = (
    "id STRING, timestamp TIMESTAMP, level STRING, event_type STRING, details STRING, "
    "origin STRUCT<pipeline_id: STRING, update_id: STRING, dataset_name: STRING, flow_name: STRING, "
    "epoch: BIGINT, batch_id: BIGINT>"
)


class Part(Enum):
    """Events of a log. Of each batch only the first record, because a repeated batch counts once."""

    UPDATES = "how updates began, went on and ended"
    BATCHES = "batches"
    TABLE_RULES = "results of table rules"
    SAMPLES = "rows that violated expectations"


_BATCH = f"event_type = '{BatchDone.event_type}' AND origin['batch_id'] IS NOT NULL"
_PLAIN = {
    Part.UPDATES: f"event_type IN ('{UpdateCreated.event_type}', '{UpdateStateChanged.event_type}')",
    Part.TABLE_RULES: f"event_type = '{TableEvaluated.event_type}'",
    Part.SAMPLES: f"event_type = '{RowsSampled.event_type}'",
}
_FIELDS = ", ".join(f"'{name}', origin['{name}']" for name in EXTRACTED_ORIGIN)
_SELECT = f"SELECT {', '.join(EXTRACTED_COLUMNS)}, named_struct({_FIELDS}) AS origin FROM events"  # noqa: S608 - our own words
_FIRST_RECORDS = f"""{_BATCH} AND id IN (
  SELECT min(id) FROM events WHERE {_BATCH}
  GROUP BY origin['update_id'], origin['flow_name'], origin['epoch'], origin['batch_id']
)"""  # noqa: S608 - our own words


def part_queries(parts: Collection[Part]) -> Iterator[str]:
    """Queries over a table ``events`` whose rows together are some parts of the log, with the extracted columns."""
    conditions = [condition for part, condition in _PLAIN.items() if part in parts]
    if conditions:
        yield f"{_SELECT} WHERE {' OR '.join(conditions)}"
    if Part.BATCHES in parts:
        yield f"{_SELECT} WHERE {_FIRST_RECORDS}"
