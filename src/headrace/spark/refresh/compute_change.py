"""Computes what a refresh changes in a view, from as few rows as possible.

Groups follow from their stored rows and the changed rows if the query allows it, else they are computed from all of
their rows. Rows of a query without groups are added and taken away one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.spark.analysis.merge_rules import MergeRule
from headrace.spark.cdc.batch_cache import BatchCache, cached_bytes, cached_rows, is_small
from headrace.spark.delta.not_null_columns import reject_nulls
from headrace.spark.refresh.merged_groups import MergedGroups, merged_groups, values_by_name
from headrace.spark.refresh.pinned_query import PinnedQuery
from headrace.spark.refresh.pinned_tables import MORE, netted
from headrace.spark.refresh.signed_rows import SignedRows, TableChange, input_changes
from headrace.spark.refresh.touched_groups import groups_now, touched_keys
from headrace.spark.refresh.view_change import NeedsAllRows, ViewChange, difference, in_groups, with_small_broadcast

_TOO_MANY = "too many groups changed for a list of their keys"


@dataclass(frozen=True)
class ViewFacts:
    """What has to be known of a view.

    Attributes:
        name: its name.
        required: its columns without NULL.
        is_small: whether it is so small that it is read, and written, as a whole.
    """

    name: str
    required: tuple[str, ...] = ()
    is_small: bool = False


class ChangeComputation:
    """Computes the change of one view.

    Args:
        query: its query, with pinned tables.
        stored: the rows of the view.
        cache: keeps frames until the change is written.
        view: the view.
    """

    def __init__(self, query: PinnedQuery, stored: DataFrame, cache: BatchCache, view: ViewFacts) -> None:
        self._query = query
        self._stored = stored
        self._cache = cache
        self._view = view

    def change(self, since: Mapping[str, int]) -> ViewChange | None:
        """What changes in the view; None for nothing.

        Args:
            since: the version of each table at the last refresh, by the table's id.

        Raises:
            NeedsAllRows: all rows have to be computed.
        """
        return self.change_after(input_changes(self._query, since, self._cache), since)

    def change_after(self, changes: Mapping[str, TableChange], since: Mapping[str, int]) -> ViewChange | None:
        """The same, for known changes of its tables by the table's id."""
        query = self._query.query
        if not changes:
            return None
        signed = SignedRows(self._query, since, changes)
        if signed.are_known and query.merge is not None:
            return self._merged(query.merge, signed)
        if signed.are_known and query.node is None:
            return self._appended(signed) if signed.are_added else self._rows(signed)
        self._check_keys()
        if not query.keys:
            return self._recomputed(None)
        keys = touched_keys(self._query, changes, self._cache)
        return None if keys.isEmpty() else self._recomputed(keys)

    def _check_keys(self) -> None:
        if self._query.query.incomparable is not None:
            raise NeedsAllRows(f"not only rows were added, and {self._query.query.incomparable}")

    def _recomputed(self, keys: DataFrame | None) -> ViewChange | None:
        """The change of groups that are computed from all of their rows; all groups without *keys*."""
        columns = self._query.query.columns
        if keys is None:
            return difference(self._stored, self._computed(self._query.whole()), columns, self._cache)
        if not is_small(keys):
            raise NeedsAllRows(_TOO_MANY)
        now = self._computed(groups_now(self._query, keys))
        before = in_groups(self._stored, with_small_broadcast(keys), columns)
        return difference(before, now, columns, self._cache)

    def _merged(self, rule: MergeRule, signed: SignedRows) -> ViewChange | None:
        """The change of groups that follow from the changed rows, as far as they do."""
        found = merged_groups(self._query, rule, signed, self._stored, self._cache, is_small_view=self._view.is_small)
        if found is None:
            raise NeedsAllRows(_TOO_MANY)
        if not found.number:
            return None
        columns = self._query.query.columns
        rows = self._query.from_groups(found.known(), values_by_name(self._query, rule))
        rows = rows.select(*map(quoted, self._stored.columns))
        if found.unknown or found.hides_groups:
            return self._partly_merged(found, rows)
        keys = found.keys(columns) if columns else None
        size_bytes = cached_bytes(found.groups)
        return ViewChange(keys, self._checked(rows), found.number, found.added, found.removed, size_bytes)

    def _partly_merged(self, found: MergedGroups, merged: DataFrame) -> ViewChange | None:
        columns = self._query.query.columns
        now = merged
        if found.unknown:
            unknown = self._cache.eager(found.keys_in_order(unknown_only=True))
            computed = groups_now(self._query, unknown).select(*map(quoted, self._stored.columns))
            now = merged.union(computed) if columns else computed
        keys = with_small_broadcast(self._cache.eager(found.keys_in_order()))
        before = in_groups(self._stored, keys, columns) if columns else self._stored
        return difference(before, self._computed(now), columns, self._cache)

    def _appended(self, signed: SignedRows) -> ViewChange | None:
        """The rows that a query without groups has more than before; none has become fewer."""
        rows = self._computed(signed.values(self._query.query.keys, self._query.query.columns))
        number = cached_rows(rows)
        return ViewChange(None, rows, number, number, 0, cached_bytes(rows)) if number else None

    def _rows(self, signed: SignedRows) -> ViewChange | None:
        """The rows that a query without groups has more or less often than before, each with all of its equals."""
        self._check_keys()
        columns = self._query.query.columns
        every = frozenset(columns)
        changed = self._cache.eager(netted(signed.values(self._query.query.keys, columns), every))
        if not is_small(changed):
            raise NeedsAllRows(_TOO_MANY)
        number = sum(abs(more) for more in changed.select(MORE).toArrow().column(MORE).to_pylist())
        if not number:
            return None
        keys = changed.select(*map(quoted, columns))
        before = self._cache.eager(in_groups(self._stored, F.broadcast(keys), columns))
        names = self._stored.columns
        counted = before.withColumn(MORE, F.lit(1)).union(changed.select(*map(quoted, names), MORE))
        kept = self._cache.eager(netted(counted, every))
        if not kept.filter(F.col(MORE) < 0).isEmpty():
            raise NeedsAllRows("the view lacks a row that is gone from its query")
        copies = F.explode(F.array_repeat(F.lit(1), F.col(MORE).cast("int")))
        now = self._computed(kept.withColumn(MORE, copies))
        return ViewChange(keys, now, number, cached_rows(now), cached_rows(before), cached_bytes(now))

    def _checked(self, rows: DataFrame) -> DataFrame:
        """The same rows; computing them fails if the view may not have them."""
        return reject_nulls(rows, self._view.required, self._view.name)

    def _computed(self, rows: DataFrame) -> DataFrame:
        """Rows with the columns of the view, cached."""
        return self._cache.eager(self._checked(rows.select(*map(quoted, self._stored.columns))))
