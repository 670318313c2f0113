"""Feature tables: what is known of each key, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.pipelines.changes import create_auto_cdc_flow
from headrace.pipelines.decorators import create_streaming_table


def create_feature_table(
    name: str,
    source: str,
    keys: Sequence[str],
    *,
    timestamp: str,
    columns: Sequence[str] | None = None,
    apply_as_deletes: Any = None,
    ignore_null_updates: bool | None = None,
    **options: Any,
) -> None:
    """Define a streaming table of features: of each key all values that it has had, with the time from which they held.

    It is a table that changes are merged into, with history (``create_auto_cdc_flow`` with type 2): columns
    ``__START_AT`` and ``__END_AT`` say from when to when a row holds, events may come in any order, and what is newest
    has ``__END_AT IS NULL``. ``headrace.point_in_time`` reads it as it was.

    Args:
        name: the table's.
        source: the dataset with the features as they are computed, read as a stream.
        keys: columns that say whose features they are.
        timestamp: the column with the time from which a row holds.
        columns: the features (default: all columns but *timestamp*); keys are always there.
        apply_as_deletes: a condition that is true for rows after which nothing is known of their key.
        ignore_null_updates: a NULL leaves a feature as it was.
        options: of the table, as for :func:`create_streaming_table`.
    """
    create_streaming_table(name, **options)
    create_auto_cdc_flow(
        name,
        source,
        keys,
        timestamp,
        apply_as_deletes=apply_as_deletes,
        ignore_null_updates=ignore_null_updates,
        column_list=None if columns is None else list(dict.fromkeys((*_names(keys), *_names(columns)))),
        # Each event has another one, and would begin a new version.
        except_column_list=[timestamp] if columns is None else None,
        stored_as_scd_type=2,
    )


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
