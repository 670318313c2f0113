"""Feature tables: the feature values of each key, with their history."""

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
    """Define a streaming table with the history of features: all values of each key, with the time they became valid.

    The table has history (``create_auto_cdc_flow`` with SCD type 2): ``__START_AT`` and ``__END_AT`` are the period in
    which a row is valid, and the newest row has ``__END_AT IS NULL``. Events can arrive in any order.
    ``headrace.point_in_time`` reads the table as of a time.

    Args:
        name: the table's name.
        source: the dataset with the computed features, read as a stream.
        keys: the columns that identify an entity.
        timestamp: the column with the time from which a row is valid.
        columns: the features (default: all columns but *timestamp*); keys are always included.
        apply_as_deletes: a condition for rows after which the key has no features.
        ignore_null_updates: a NULL leaves a feature unchanged.
        options: options of the table, as for :func:`create_streaming_table`.
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
        # It differs in each event, so it would start a new version each time.
        except_column_list=[timestamp] if columns is None else None,
        stored_as_scd_type=2,
    )


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
