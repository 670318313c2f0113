"""Which columns of its inputs each column of a query comes from, and how.

The terms are OpenLineage's: a value is computed from columns (direct), or decided by columns (indirect).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from headrace.model.dataset_id import DatasetId


class Use(str, Enum):
    """How a column of an input is used."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    CONDITIONAL = "CONDITIONAL"
    FILTER = "FILTER"
    GROUP_BY = "GROUP_BY"
    JOIN = "JOIN"
    SORT = "SORT"
    WINDOW = "WINDOW"

    @property
    def is_direct(self) -> bool:
        """True if values are computed from the column; False if it only decides about rows or values."""
        return self in _DIRECT

    def then(self, outer: Use) -> Use:
        """How the column is used by an expression that uses, as *outer* says, what uses the column in this way."""
        if not outer.is_direct:
            return outer
        if not self.is_direct:
            return self
        return max(self, outer, key=_DIRECT.index)

    @property
    def phrase(self) -> str:
        """The use for people."""
        return self.value.replace("_", " ").lower()


_DIRECT = (Use.IDENTITY, Use.TRANSFORMATION, Use.AGGREGATION)

# A dataset of the pipeline by its name, or one outside of it.
InputDataset: TypeAlias = "str | DatasetId"

# The size of what is recorded for a flow, in characters; names and uses, roughly as their JSON has them.
MAX_SIZE = 64 * 1024
_SIZE_OF_USE = 20


@dataclass(frozen=True)
class ColumnUse:
    """A column of an input, and how it is used."""

    dataset: InputDataset
    column: str
    use: Use

    def to_json(self) -> dict[str, str]:
        """The use as JSON; what is outside of the pipeline has a namespace too."""
        named = {"dataset": self.dataset} if isinstance(self.dataset, str) else self._outside(self.dataset)
        return {**named, "column": self.column, "use": self.use.value}

    def describe(self) -> str:
        """The use for people, such as ``orders.amount (aggregation)``."""
        name = self.dataset if isinstance(self.dataset, str) else self.dataset.name
        how = "" if self.use is Use.IDENTITY else f" ({self.use.phrase})"
        return f"{name}.{self.column}{how}"

    @staticmethod
    def _outside(dataset: DatasetId) -> dict[str, str]:
        return {"namespace": dataset.namespace, "dataset": dataset.name}

    def then(self, outer: Use) -> ColumnUse:
        """The same column, used by an expression that uses what uses it."""
        return replace(self, use=self.use.then(outer))


@dataclass(frozen=True)
class OutputColumn:
    """A column of a query, and what it comes from; nothing for a constant."""

    name: str
    uses: tuple[ColumnUse, ...] = ()


@dataclass(frozen=True)
class ColumnLineage:
    """The columns of a query in their order, and which columns of its inputs decide about its rows.

    Attributes:
        columns: of the query.
        rows: columns that filter, join, group or sort rows; they concern all columns.
        is_complete: False if something is left out, because it would be too large or is unknown.
    """

    columns: tuple[OutputColumn, ...] = ()
    rows: tuple[ColumnUse, ...] = ()
    is_complete: bool = True

    def of(self, column: str) -> tuple[ColumnUse, ...]:
        """What a column comes from; case does not matter."""
        wanted = column.casefold()
        return next((one.uses for one in self.columns if one.name.casefold() == wanted), ())

    @property
    def datasets(self) -> tuple[InputDataset, ...]:
        """The inputs whose columns are used, in their order."""
        return tuple(dict.fromkeys(use.dataset for use in self._uses()))

    def to_json(self) -> dict[str, Any]:
        """The lineage as JSON: for each column, and for all rows, the columns of inputs and how they are used."""
        return {
            "columns": [
                {"column": column.name, "from": [use.to_json() for use in column.uses]} for column in self.columns
            ],
            "rows": [use.to_json() for use in self.rows],
            "complete": self.is_complete,
        }

    def describe(self) -> Iterator[tuple[str, str]]:
        """For each column, and for all rows, what it comes from; as a text, and a label where another kind begins."""
        label = "from"
        for column in self.columns:
            yield label, f"{column.name}: {', '.join(use.describe() for use in column.uses) or 'no column'}"
            label = ""
        if self.rows:
            yield "rows by", ", ".join(use.describe() for use in self.rows)
        if not self.is_complete:
            yield "", "and more: it is unknown, or too much to show"

    def bounded(self, max_size: int = MAX_SIZE) -> ColumnLineage:
        """The same with at most a size; what decides about rows and values is left out first, then the last columns."""
        budget = _Budget(max_size)
        columns = [column for column in self.columns if budget.takes(len(column.name) + _SIZE_OF_USE)]
        direct = [[use for use in column.uses if use.use.is_direct and budget.takes_use(use)] for column in columns]
        rows = tuple(use for use in self.rows if budget.takes_use(use))
        indirect = [[use for use in c.uses if not use.use.is_direct and budget.takes_use(use)] for c in columns]
        if not budget.is_exceeded:
            return self
        kept = (OutputColumn(c.name, (*d, *i)) for c, d, i in zip(columns, direct, indirect, strict=True))
        return ColumnLineage(tuple(kept), rows, is_complete=False)

    def _uses(self) -> Iterator[ColumnUse]:
        for column in self.columns:
            yield from column.uses
        yield from self.rows


class _Budget:
    """Counts characters; once they do not suffice, it takes nothing more."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._known: set[tuple[InputDataset, str]] = set()
        self.is_exceeded = False

    def takes(self, size: int) -> bool:
        self.is_exceeded = self.is_exceeded or size > self._left
        self._left -= 0 if self.is_exceeded else size
        return not self.is_exceeded

    def takes_use(self, use: ColumnUse) -> bool:
        source = (use.dataset, use.column)
        is_new = source not in self._known
        self._known.add(source)
        return self.takes(_SIZE_OF_USE + (len(use.column) + _length(use.dataset) if is_new else 0))


def _length(dataset: InputDataset) -> int:
    return len(dataset) if isinstance(dataset, str) else len(dataset.namespace) + len(dataset.name)


def unique(uses: Iterable[ColumnUse]) -> tuple[ColumnUse, ...]:
    """Each use once, in their order."""
    return tuple(dict.fromkeys(uses))


def seen_through(lineage: ColumnLineage, views: dict[str, ColumnLineage]) -> ColumnLineage:
    """The lineage with the inputs of views in place of the views, which store nothing.

    Args:
        lineage: of a query.
        views: the lineage of the query of each view, by its name.
    """
    return _seen_through(lineage, views, frozenset())


def _seen_through(lineage: ColumnLineage, views: dict[str, ColumnLineage], inside: frozenset[str]) -> ColumnLineage:
    read = [name for name in lineage.datasets if isinstance(name, str) and name in views and name not in inside]
    if not read:
        return lineage
    below = {name: _seen_through(views[name], views, inside | {name}) for name in read}

    def replaced(uses: Iterable[ColumnUse]) -> Iterator[ColumnUse]:
        for use in uses:
            view = below.get(use.dataset) if isinstance(use.dataset, str) else None
            if view is None:
                yield use
            else:
                yield from (inner.then(use.use) for inner in view.of(use.column))

    columns = tuple(OutputColumn(column.name, unique(replaced(column.uses))) for column in lineage.columns)
    rows = unique((*replaced(lineage.rows), *(use for view in below.values() for use in view.rows)))
    is_complete = lineage.is_complete and all(view.is_complete for view in below.values())
    return ColumnLineage(columns, rows, is_complete)
