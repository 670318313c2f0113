"""The change data feed of a Delta table: rows before and after each change, its type and its commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
# Types of the rows that the feed shows as they were before a commit.
REMOVING_CHANGE_TYPES = ("delete", "update_preimage")
# The reader option that requests the feed, and all options that do, in lower case.
FEED_OPTION = "readChangeFeed"
FEED_OPTIONS = (FEED_OPTION.casefold(), "readchangedata")
# The table property that enables the feed.
FEED_PROPERTY = "delta.enableChangeDataFeed"


def is_change_feed(columns: Iterable[str]) -> bool:
    """True if *columns* contain those of a change feed; case does not matter."""
    return set(FEED_COLUMNS) <= {column.casefold() for column in columns}


def requests_change_feed(options: Mapping[str, Any]) -> bool:
    """True if reader *options* request the feed."""
    return any(key.casefold() in FEED_OPTIONS and str(value).casefold() == "true" for key, value in options.items())


def without_feed_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns without those that the feed adds."""
    return tuple(column for column in columns if column.casefold() not in FEED_COLUMNS)
