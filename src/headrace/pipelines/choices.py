"""Check and convert the arguments of functions that declare change flows."""

from __future__ import annotations

from typing import Any

from headrace.errors import PipelineError
from headrace.model.cdc import Columns
from headrace.model.location import Location
from headrace.pipelines.arguments import column
from headrace.pipelines.registry import Registry


class Choices:
    """Converts the arguments of one call; invalid ones become problems of the project.

    Args:
        registry: the registry of the file that is being loaded.
        location: the location of the call.
        flow: the name of the declared flow, or of its target.
    """

    def __init__(self, registry: Registry, location: Location, flow: str) -> None:
        self._registry = registry
        self._location = location
        self._flow = flow
        self.refused = False

    def of(self, listing: str, lists: tuple[Any, Any], otherwise: Columns) -> Columns:
        """The columns chosen by one of two arguments: *listing*, or the one that excludes columns."""
        # Spark's own pipelines, and generated code, pass an empty list for none.
        listed, excepted = (None if given is None or not len(given) else given for given in lists)
        if listed is not None and excepted is not None:
            excepting = listing.replace("column_list", "except_column_list")
            self.refuse(excepting, f"{listing} is also set; use only one of them")
        if listed is not None:
            return Columns(_names(listed), all_but=False)
        return Columns(_names(excepted)) if excepted is not None else otherwise

    def keys(self, given: Any, argument: str = "keys") -> tuple[Any, ...]:
        """The columns that identify a row."""
        keys = tuple(
            column(key) if isinstance(key, str) else key
            for key in ((given,) if isinstance(given, str) else given or ())
        )
        if not keys:
            self.refuse(argument, "at least one column must identify a row")
        return keys

    def has_name(self, argument: str, given: Any) -> None:
        """Refuse a value that is not the name of a dataset, table or view."""
        if not isinstance(given, str):
            self.refuse(argument, f"it must be the name of a dataset or table, not {type(given).__name__}")

    def either(self, name: str, given: Any, older_name: str, older: Any) -> Any:
        """The value of an argument that has an older name; None if neither is given."""
        if given is not None and older is not None:
            self.refuse(older_name, f"it is the older name of {name}, which is also set")
        return older if given is None else given

    def scd_type(self, given: int | str, known: tuple[str, ...] = ("1", "2")) -> str:
        """The SCD type, which determines the history that is kept."""
        scd_type = str(given).strip().casefold()
        if scd_type not in known:
            self.refuse("stored_as_scd_type", f"it must be {', '.join(known[:-1])} or {known[-1]}, not {given!r}")
        return scd_type

    def refuse(self, argument: str, reason: str) -> None:
        """Record that an argument is refused."""
        self.refused = True
        self._registry.problems.append(
            PipelineError(
                "CDC.BAD_ARGUMENT", location=self._location, flow=self._flow, argument=argument, reason=reason
            )
        )


def _names(values: Any) -> tuple[str, ...]:
    values = (values,) if isinstance(values, str) else values
    return tuple(column(value) if isinstance(value, str) else _name_of(value) for value in values)


def _name_of(column: Any) -> str:
    """The name of a Column, taken from its text ``Column<'name'>``: this layer does not import Spark."""
    return str(column).removeprefix("Column<'").removesuffix("'>").strip("`")
