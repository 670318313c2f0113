"""The change feed of a Delta table: its rows as they were and became, with what happened, and in which commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
# What happened to rows that are shown as they were before a commit.
TAKEN_AWAY = ("delete", "update_preimage")
# By which Delta's readers are asked for the feed, and all that do so, in lower case.
FEED_OPTION = "readChangeFeed"
FEED_OPTIONS = (FEED_OPTION.casefold(), "readchangedata")
# The property of a table that keeps one.
FEED_PROPERTY = "delta.enableChangeDataFeed"


def is_change_feed(columns: Iterable[str]) -> bool:
    """True for the columns of a change feed, whatever else is among them; case does not matter."""
    return set(FEED_COLUMNS) <= {column.casefold() for column in columns}


def asks_for_feed(options: Mapping[str, Any]) -> bool:
    """True when the options of a reader ask for the feed."""
    return any(key.casefold() in FEED_OPTIONS and str(value).casefold() == "true" for key, value in options.items())


def without_feed_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns of the rows themselves."""
    return tuple(column for column in columns if column.casefold() not in FEED_COLUMNS)
