"""Flows of change events into streaming tables: ``create_auto_cdc_flow`` and ``replace_flow``.

Source: the vendor's Python references for ``create_auto_cdc_flow`` (older: ``apply_changes``) and ``replace_flow``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.model.cdc import ALL_COLUMNS, BITEMPORAL, NO_COLUMNS, ApplyChanges, Columns, conflict
from headrace.model.datasets import Flow, PythonQuery
from headrace.pipelines.choices import Choices
from headrace.pipelines.registry import current_reader, current_registry

# Unsupported arguments and the reasons; they are refused if they have a value.
_LATER: Mapping[str, str] = {
    "where": "a condition on source and target is not supported; filter the rows in a view that the flow reads",
}


def create_auto_cdc_flow(
    target: str,
    source: str,
    keys: Sequence[Any],
    sequence_by: Any,
    *,
    ignore_null_updates: bool | None = None,
    apply_as_deletes: Any = None,
    apply_as_truncates: Any = None,
    column_list: Sequence[Any] | None = None,
    except_column_list: Sequence[Any] | None = None,
    stored_as_scd_type: int | str = "1",
    track_history_column_list: Sequence[Any] | None = None,
    track_history_except_column_list: Sequence[Any] | None = None,
    name: str | None = None,
    flow_name: str | None = None,
    once: bool = False,
    system_sequence_by: Any = None,
    ignore_null_updates_column_list: Sequence[Any] | None = None,
    ignore_null_updates_except_column_list: Sequence[Any] | None = None,
    columns_to_update: Any = None,
    **later: Any,
) -> None:
    """Merge a stream of change events into a streaming table, in any order of arrival.

    The result depends only on the set of events. If several events have the same key and sequence, a delete wins, then
    the greatest row. Events with a NULL key or sequence are quarantined.

    Args:
        target: a streaming table made by ``create_streaming_table``; only such flows can write to it.
        source: the dataset or table with the events, read as a stream, or as a batch with *once*.
        keys: the columns that identify a row.
        sequence_by: the order of events: a column, an expression, or a struct of several.
        ignore_null_updates: a NULL in an event leaves the value unchanged.
        apply_as_deletes: a condition for events that delete their row.
        apply_as_truncates: a condition for events that delete all rows that are not newer.
        column_list: the columns of the target.
        except_column_list: columns of the source that the target does not have.
        stored_as_scd_type: 1 keeps the current rows; 2 keeps each version with ``__START_AT`` and ``__END_AT``;
            bitemporal also keeps superseded versions, with ``__SYSTEM_START_AT`` and ``__SYSTEM_END_AT``.
        track_history_column_list: columns whose change starts a new version (default: all).
        track_history_except_column_list: columns that are updated in the current version.
        name: the flow's identity (default: the target's name); *flow_name* is the older spelling.
        flow_name: see *name*.
        once: merge the existing events exactly once, and again on a full refresh.
        system_sequence_by: the time from which an event is known, for ``stored_as_scd_type="bitemporal"``.
        ignore_null_updates_column_list: the columns in which a NULL leaves the value unchanged.
        ignore_null_updates_except_column_list: a NULL leaves the value unchanged in all columns but these.
        columns_to_update: a column with the names of the columns that an event sets.
        later: unsupported arguments of the vendor, which are refused by name.
    """
    registry = current_registry("create_auto_cdc_flow")
    location = registry.here()
    choices = Choices(registry, location, name or flow_name or str(target))
    choices.has_name("source", source)
    own = choices.either("name", name, "flow_name", flow_name)
    kept_lists = ignore_null_updates_column_list, ignore_null_updates_except_column_list
    tracked_lists = track_history_column_list, track_history_except_column_list
    _refuse_later(choices, later)
    changes = ApplyChanges(
        source=source,
        keys=choices.keys(keys),
        sequence_by=sequence_by,
        deletes=apply_as_deletes,
        truncates=apply_as_truncates,
        columns=choices.of("column_list", (column_list, except_column_list), ALL_COLUMNS),
        ignore_null_columns=_null_keeps(choices, kept_lists, ignored=ignore_null_updates),
        sets=columns_to_update,
        scd_type=choices.scd_type(stored_as_scd_type, ("1", "2", BITEMPORAL)),
        tracked=choices.of("track_history_column_list", tracked_lists, ALL_COLUMNS),
        system_sequence_by=system_sequence_by,
    )
    wrong = conflict(changes)
    if wrong is not None:
        choices.refuse(*wrong)
    found = registry.name(target, location)
    if found is None or choices.refused:
        return
    query = PythonQuery(_reading(source, once=once), registry.naming)
    registry.add_flow(Flow(own or str(found), found, query, location, once=once, append=True, changes=changes))


def _null_keeps(choices: Choices, lists: tuple[Any, Any], *, ignored: bool | None) -> Columns:
    """The columns in which a NULL leaves the value unchanged."""
    if ignored and lists != (None, None):
        reason = "it covers all columns, but a list of columns is also set; use only one of them"
        choices.refuse("ignore_null_updates", reason)
    return choices.of("ignore_null_updates_column_list", lists, ALL_COLUMNS if ignored else NO_COLUMNS)


def replace_flow(
    query_function: Any = None,
    *,
    target: str,
    replace_using: Sequence[Any],
    sequence_by: Any,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Mapping[str, Any] | None = None,
) -> Any:
    """Define a flow that keeps, for each key, the row with the greatest sequence.

    The result depends only on the set of rows, not on their order. If several rows have the same key and sequence, the
    greatest is kept. Rows with a NULL key or sequence are quarantined.

    Args:
        query_function: the decorated function, which returns a streaming DataFrame.
        target: a streaming table made by ``create_streaming_table``; only such flows can write to it.
        replace_using: the columns that identify a row.
        sequence_by: the order of the rows of a key: a column, an expression, or a struct of several.
        name: the flow's identity, which determines its checkpoint (default: the function's name).
        comment: a comment for readers.
        spark_conf: settings for this flow only.
    """
    registry = current_registry("replace_flow")
    location = registry.here()
    choices = Choices(registry, location, name or str(target))
    keys = choices.keys(replace_using, "replace_using")
    found = registry.name(target, location)

    def declare(function: Any) -> Any:
        own = name or function.__name__
        changes = ApplyChanges(source=None, keys=keys, sequence_by=sequence_by)
        if found is not None and not choices.refused:
            query = PythonQuery(function, registry.naming)
            conf = {key: str(value) for key, value in (spark_conf or {}).items()}
            registry.add_flow(
                Flow(own, found, query, location, comment=comment, spark_conf=conf, append=True, changes=changes)
            )
        return function

    return declare(query_function) if callable(query_function) else declare


def _reading(source: str, *, once: bool) -> Callable[[], Any]:
    """The query that reads the events of a source."""

    def events() -> Any:
        reader = current_reader("create_auto_cdc_flow")
        return reader.read(source) if once else reader.read_stream(source)

    return events


def _refuse_later(choices: Choices, given: Mapping[str, Any]) -> None:
    """Refuse unsupported arguments.

    Raises:
        TypeError: an argument is unknown.
    """
    for argument, value in given.items():
        if argument not in _LATER:
            raise TypeError(f"create_auto_cdc_flow() got an unexpected keyword argument {argument!r}")
        if value is not None:
            choices.refuse(argument, _LATER[argument])
