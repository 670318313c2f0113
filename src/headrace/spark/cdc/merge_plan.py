"""What a batch does to its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.spark.cdc.key_range import KeyRange
from headrace.spark.delta.tables import delta_table

# Expressions of the user are looked up beside them; no column should be called so.
TARGET_ALIAS, SOURCE_ALIAS = "__headrace_target", "__headrace_source"


@dataclass(frozen=True)
class Merge:
    """What a batch does to its target, a table with the alias ``TARGET_ALIAS``.

    Args:
        source: rows with the alias ``SOURCE_ALIAS``, no two of which match one row of the target; they do not change
            when they are read again (``Kept.settled``).
        matches: which rows of the source and the target belong together.
        deletes: which matched rows are taken out.
        updates: which other matched rows get new values; None for none.
        inserts: which rows of the source that match none are added; None for none.
        values: of the target's columns, for updates and inserts; of the source alone.
        identity: columns of the target, each with what of the source it equals in rows that belong together; empty
            where ``matches`` says more than these and ``keys``.
        keys: between which the keys of the source lie.
        small: the source may be sent to every task.
        exact: the source alone says what becomes of its rows: those that are taken out or get new values have a row in
            the target, and those that are added have none.
    """

    source: DataFrame
    matches: Column
    deletes: Column | None
    updates: Column | None
    inserts: Column | None
    values: Mapping[str, Column]
    identity: Mapping[str, Column] = field(default_factory=dict)
    keys: KeyRange = field(default_factory=KeyRange)
    small: bool = False
    exact: bool = False

    @property
    def sent(self) -> DataFrame:
        """The source, to every task where it may be, with its alias."""
        return (F.broadcast(self.source) if self.small else self.source).alias(SOURCE_ALIAS)

    def on(self, table: str) -> Any:
        """Delta's own form of the MERGE into a table, to be executed."""
        session = self.source.sparkSession
        values = _java_map(session, {quoted(name): value for name, value in self.values.items()})
        target = getattr(delta_table(session, table), "as")(TARGET_ALIAS)
        builder = target.merge(_java(self.sent), _java(self.matches))
        if self.deletes is not None:
            builder = builder.whenMatched(_java(self.deletes)).delete()
        if self.updates is not None:
            builder = builder.whenMatched(_java(self.updates)).update(values)
        return builder if self.inserts is None else builder.whenNotMatched(_java(self.inserts)).insert(values)

    def narrowed(self) -> Merge:
        """The same without what no row of the source is for: Delta has shorter ways for what only adds or only changes.

        Where the target's rows decide, nothing is known before.
        """
        if not self.exact:
            return self
        asked = {"deletes": self.deletes, "updates": self.updates, "inserts": self.inserts}
        given = {name: condition for name, condition in asked.items() if condition is not None}
        counts = [F.count_if(condition).alias(name) for name, condition in given.items()]
        found = self.source.alias(SOURCE_ALIAS).agg(*counts).collect()[0]
        needed = {name: condition for name, condition in given.items() if found[name]}
        if not needed:
            # Nothing changes, and yet it is a commit, which says that the batch is in the table.
            return self
        deletes, updates, inserts = (needed.get(name) for name in asked)
        return replace(self, deletes=deletes, updates=updates, inserts=inserts)


def target_column(name: str) -> Column:
    """A column of the target."""
    return F.col(f"{TARGET_ALIAS}.{quoted(name)}")


def same(identity: Mapping[str, Column], keys: KeyRange) -> Column:
    """That columns of the target equal what of the source is named beside them, and lie where it does."""
    equal = [target_column(name) == value for name, value in identity.items()]
    return reduce(Column.__and__, equal) & keys.holds(target_column)


def _java(of: DataFrame | Column) -> Any:
    return of._jdf if isinstance(of, DataFrame) else of._jc  # noqa: SLF001 - Delta's API for columns is Java's


def _java_map(session: SparkSession, values: Mapping[str, Column]) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    made = jvm.java.util.HashMap()
    for name, value in values.items():
        made.put(name, _java(value))
    return made
