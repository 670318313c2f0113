"""The changes of a batch to its target, as a MERGE."""

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

# The user's expressions are resolved next to these aliases, so no column should have such a name.
TARGET_ALIAS, SOURCE_ALIAS = "__headrace_target", "__headrace_source"


@dataclass(frozen=True)
class Merge:
    """The changes of a batch to its target, a table with the alias ``TARGET_ALIAS``.

    Args:
        source: rows with the alias ``SOURCE_ALIAS``; no two match the same row of the target, and reading them again
            gives the same rows (``BatchCache.eager``).
        matches: the join condition of source and target.
        deletes: condition for matched rows that are deleted.
        updates: condition for other matched rows that are updated; None for none.
        inserts: condition for unmatched source rows that are inserted; None for none.
        values: values of the target's columns for updates and inserts, computed from the source alone.
        identity: columns of the target with the source expressions that they equal in matched rows; empty if
            ``matches`` is more than ``identity`` and ``keys``.
        keys: the range of the source's keys.
        is_small: the source may be broadcast.
        is_exact: the source alone determines the action: rows to delete or update exist in the target, rows to insert
            do not.
    """

    source: DataFrame
    matches: Column
    deletes: Column | None
    updates: Column | None
    inserts: Column | None
    values: Mapping[str, Column]
    identity: Mapping[str, Column] = field(default_factory=dict)
    keys: KeyRange = field(default_factory=KeyRange)
    is_small: bool = False
    is_exact: bool = False

    @property
    def aliased_source(self) -> DataFrame:
        """The source with its alias, broadcast if it is small."""
        return (F.broadcast(self.source) if self.is_small else self.source).alias(SOURCE_ALIAS)

    def builder(self, table: str) -> Any:
        """Delta's merge builder for a table, ready to execute."""
        session = self.source.sparkSession
        values = _java_map(session, {quoted(name): value for name, value in self.values.items()})
        target = getattr(delta_table(session, table), "as")(TARGET_ALIAS)
        builder = target.merge(_java(self.aliased_source), _java(self.matches))
        if self.deletes is not None:
            builder = builder.whenMatched(_java(self.deletes)).delete()
        if self.updates is not None:
            builder = builder.whenMatched(_java(self.updates)).update(values)
        return builder if self.inserts is None else builder.whenNotMatched(_java(self.inserts)).insert(values)

    def without_unused_clauses(self) -> Merge:
        """The same merge without clauses that match no source row, because Delta has fast paths for single clauses.

        Unchanged if rows of the target determine the action.
        """
        if not self.is_exact:
            return self
        clauses = {"deletes": self.deletes, "updates": self.updates, "inserts": self.inserts}
        given = {name: condition for name, condition in clauses.items() if condition is not None}
        counts = [F.count_if(condition).alias(name) for name, condition in given.items()]
        found = self.source.alias(SOURCE_ALIAS).agg(*counts).collect()[0]
        needed = {name: condition for name, condition in given.items() if found[name]}
        if not needed:
            # Nothing changes, but the commit has to record that the batch is in the table.
            return self
        deletes, updates, inserts = (needed.get(name) for name in clauses)
        return replace(self, deletes=deletes, updates=updates, inserts=inserts)


def target_column(name: str) -> Column:
    """A column of the target."""
    return F.col(f"{TARGET_ALIAS}.{quoted(name)}")


def match_condition(identity: Mapping[str, Column], keys: KeyRange) -> Column:
    """True if columns of the target equal the given source expressions and lie within the range of keys."""
    equal = [target_column(name) == value for name, value in identity.items()]
    return reduce(Column.__and__, equal) & keys.contains(target_column)


def _java(of: DataFrame | Column) -> Any:
    return of._jdf if isinstance(of, DataFrame) else of._jc  # noqa: SLF001 - Delta's API for columns is Java's


def _java_map(session: SparkSession, values: Mapping[str, Column]) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    java_map = jvm.java.util.HashMap()
    for name, value in values.items():
        java_map.put(name, _java(value))
    return java_map
