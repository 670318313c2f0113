"""``create_auto_cdc_flow``, in the vendor's older spelling ``apply_changes``: a feed of changes into a streaming table.

Source: the vendor's Python reference for ``create_auto_cdc_flow``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import PipelineError
from headrace.model.cdc import ALL_COLUMNS, NO_COLUMNS, ApplyChanges, Columns, conflict
from headrace.model.datasets import Flow, PythonQuery
from headrace.model.location import Location
from headrace.pipelines.registry import Registry, current_reader, current_registry

# Arguments that do not work yet, and why; given a value they are refused.
_LATER: Mapping[str, str] = {
    "system_sequence_by": "tables with two times are not there yet; keep the history with stored_as_scd_type=2",
    "once": "loads that run once are not there yet; read the same rows as a stream of its own",
    "where": "a condition on source and target is not there yet; filter in a view that the flow reads",
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
    ignore_null_updates_column_list: Sequence[Any] | None = None,
    ignore_null_updates_except_column_list: Sequence[Any] | None = None,
    columns_to_update: Any = None,
    **later: Any,
) -> None:
    """Merge the change events of a stream into a streaming table, whatever order they come in.

    The result depends on the set of events alone. Of several events with one key and sequence a delete wins, then the
    greatest row. Events whose keys or sequence are NULL are quarantined.

    Args:
        target: a streaming table made by ``create_streaming_table``, which only such flows may write to.
        source: the dataset or table with the events, read as a stream.
        keys: columns that tell rows apart.
        sequence_by: what events are ordered by: a column, an expression, or a struct of several.
        ignore_null_updates: a NULL in an event leaves the value as it was.
        apply_as_deletes: a condition that is true for events which take their row away.
        apply_as_truncates: a condition that is true for events which take all rows away that are not newer.
        column_list: the columns of the target.
        except_column_list: columns of the source that the target does not have.
        stored_as_scd_type: 1 keeps the current rows, 2 each version with ``__START_AT`` and ``__END_AT``.
        track_history_column_list: columns whose change begins a new version (default: all).
        track_history_except_column_list: columns that are updated in the open version.
        name: the flow's identity (default: the target's name); *flow_name* is the older spelling.
        flow_name: see *name*.
        ignore_null_updates_column_list: the columns in which a NULL leaves the value as it was.
        ignore_null_updates_except_column_list: all columns but those in which a NULL is a value.
        columns_to_update: a column with the names of the columns that an event sets.
        later: arguments of the vendor's that are refused by name.
    """
    registry = current_registry("create_auto_cdc_flow")
    location = registry.here()
    choices = _Choices(registry, location)
    kept = ALL_COLUMNS if ignore_null_updates else NO_COLUMNS
    kept_lists = ignore_null_updates_column_list, ignore_null_updates_except_column_list
    tracked_lists = track_history_column_list, track_history_except_column_list
    choices.refuse_later(later)
    changes = ApplyChanges(
        source=source,
        keys=choices.keys(keys),
        sequence_by=sequence_by,
        deletes=apply_as_deletes,
        truncates=apply_as_truncates,
        columns=choices.of("column_list", (column_list, except_column_list), ALL_COLUMNS),
        null_keeps=choices.of("ignore_null_updates_column_list", kept_lists, kept),
        sets=columns_to_update,
        scd_type=choices.scd_type(stored_as_scd_type),
        tracked=choices.of("track_history_column_list", tracked_lists, ALL_COLUMNS),
    )
    wrong = conflict(changes)
    if wrong is not None:
        choices.refuse(*wrong)
    found = registry.name(target, location)
    if found is None or choices.refused:
        return
    query = PythonQuery(lambda: current_reader("create_auto_cdc_flow").read_stream(source), registry.naming)
    own = name or flow_name or str(found)
    registry.add_flow(Flow(own, found, query, location, append=True, changes=changes))


class _Choices:
    """Arguments as they are understood; what cannot be taken is a problem of the project."""

    def __init__(self, registry: Registry, location: Location) -> None:
        self._registry = registry
        self._location = location
        self.refused = False

    def of(self, listing: str, lists: tuple[Any, Any], otherwise: Columns) -> Columns:
        """The columns that one of two arguments chooses: *listing*, or the one that excepts columns."""
        listed, excepted = lists
        if listed is not None and excepted is not None:
            excepting = listing.replace("column_list", "except_column_list")
            self.refuse(excepting, f"{listing} is given too, and only one of them can be")
        if listed is not None:
            return Columns(_names(listed), all_but=False)
        return Columns(_names(excepted)) if excepted is not None else otherwise

    def keys(self, given: Any) -> tuple[Any, ...]:
        """The columns that tell rows apart."""
        keys = (given,) if isinstance(given, str) else tuple(given)
        if not keys:
            self.refuse("keys", "at least one column has to tell rows apart")
        return keys

    def scd_type(self, given: int | str) -> str:
        """How much of the past is kept."""
        scd_type = str(given).strip().casefold()
        if scd_type == "bitemporal":
            self.refuse("stored_as_scd_type", "tables with two times are not there yet; keep the history with 2")
        elif scd_type not in ("1", "2"):
            self.refuse("stored_as_scd_type", f"it is {given!r}, and may be 1 or 2")
        return scd_type

    def refuse_later(self, given: Mapping[str, Any]) -> None:
        """Refuse arguments that do not work yet.

        Raises:
            TypeError: for one that there is not.
        """
        for argument, value in given.items():
            if argument not in _LATER:
                raise TypeError(f"create_auto_cdc_flow() got an unexpected keyword argument {argument!r}")
            if value:
                self.refuse(argument, _LATER[argument])

    def refuse(self, argument: str, reason: str) -> None:
        """Record that an argument cannot be taken."""
        self.refused = True
        self._registry.problems.append(
            PipelineError(
                "UNSUPPORTED.ARGUMENT",
                location=self._location,
                what="create_auto_cdc_flow",
                argument=argument,
                reason=reason,
            )
        )


def _names(values: Any) -> tuple[str, ...]:
    values = (values,) if isinstance(values, str) else values
    return tuple(value if isinstance(value, str) else _name_of(value) for value in values)


def _name_of(column: Any) -> str:
    """The name behind a Column, which this layer does not know: what it prints is ``Column<'name'>``."""
    return str(column).removeprefix("Column<'").removesuffix("'>").strip("`")
