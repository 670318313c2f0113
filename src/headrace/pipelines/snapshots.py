"""``create_auto_cdc_from_snapshot_flow``: apply successive full snapshots of a source to a streaming table.

Source: the vendor's Python reference for it (older: ``apply_changes_from_snapshot``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.model.cdc import ALL_COLUMNS, CompareSnapshots, snapshot_conflict
from headrace.model.datasets import Flow, PythonQuery
from headrace.pipelines.choices import Choices
from headrace.pipelines.registry import current_reader, current_registry

_WHAT = "create_auto_cdc_from_snapshot_flow"


def create_auto_cdc_from_snapshot_flow(
    target: str,
    source: Any = None,
    keys: Sequence[Any] = (),
    stored_as_scd_type: int | str = "1",
    track_history_column_list: Sequence[Any] | None = None,
    track_history_except_column_list: Sequence[Any] | None = None,
    *,
    snapshot_and_version: Any = None,
    name: str | None = None,
    flow_name: str | None = None,
) -> None:
    """Update a streaming table to match the newest snapshot of a source: insert, update and delete rows.

    Keys must be unique in a snapshot, and versions must ascend; otherwise the flow fails and the table is unchanged.
    Rows with a NULL key are quarantined. A row that an expectation drops or quarantines counts as present: the table's
    row of that key is unchanged.

    Args:
        target: a streaming table made by ``create_streaming_table``; only this flow can write to it.
        source: the dataset or table to compare once in each update, with the update's time as version; or a function
            that gets the last version (None at first) and returns the next snapshot and its version, or None if there
            is none. It is called until it returns None.
        keys: the columns that identify a row.
        stored_as_scd_type: 1 keeps the current rows; 2 keeps each version with ``__START_AT`` and ``__END_AT``, which
            have the type of the snapshots' versions.
        track_history_column_list: columns whose change starts a new version (default: all).
        track_history_except_column_list: columns that are updated in the current version.
        snapshot_and_version: the older name of *source* for a function.
        name: the flow's identity (default: the target's name); *flow_name* is the older spelling.
        flow_name: see *name*.
    """
    registry = current_registry(_WHAT)
    location = registry.here()
    choices = Choices(registry, location, name or flow_name or str(target))
    own = choices.either("name", name, "flow_name", flow_name)
    given = choices.either("source", source, "snapshot_and_version", snapshot_and_version)
    if not isinstance(given, str) and not callable(given):
        choices.refuse("source", f"it must be the name of a dataset or a function, not {given!r}")
    compares = CompareSnapshots(
        source=given if isinstance(given, str) else None,
        keys=choices.keys(keys),
        scd_type=choices.scd_type(stored_as_scd_type),
        tracked=choices.of(
            "track_history_column_list",
            (track_history_column_list, track_history_except_column_list),
            ALL_COLUMNS,
        ),
    )
    wrong = snapshot_conflict(compares)
    if wrong is not None:
        choices.refuse(*wrong)
    found = registry.name(target, location)
    if found is None or choices.refused:
        return

    def rows() -> Any:
        return current_reader(_WHAT).read(given)

    query = PythonQuery(rows if isinstance(given, str) else given, registry.naming)
    registry.add_flow(Flow(own or str(found), found, query, location, append=True, snapshots=compares))
