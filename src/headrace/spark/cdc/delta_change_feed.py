"""The rows of a Delta change feed as change events: which of them delete a row, and which have no effect."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.cdc.delta_change_feed import CHANGE_TYPE, COMMIT_VERSION, REMOVING_CHANGE_TYPES
from headrace.model.names import quoted


def is_preimage() -> Column:
    """True for a row that the feed shows as it was before the commit."""
    return F.coalesce(F.col(CHANGE_TYPE).isin(*REMOVING_CHANGE_TYPES), F.lit(False))


def without_replaced_rows(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """The rows without the old images that the same commit replaces by a new row with the same key.

    An update leaves its new row. An update that changes the key, or that moves the row out of a query's filter, leaves
    the old row too, as a delete. A commit that deletes and inserts a key is an update.

    Delta puts the rows of an update into one batch (``DeltaSourceCDCSupport.filterFiles``). It may put whole files that
    a commit removes and adds into two batches; ``ScdSpec.upserts_win`` then leads to the same rows.
    """
    replaced = "__headrace_replaced"
    commit = Window.partitionBy(*[F.col(quoted(key)) for key in keys], F.col(COMMIT_VERSION))
    marked = rows.withColumn(replaced, F.max(~is_preimage()).over(commit))
    return marked.filter(~is_preimage() | ~F.col(replaced)).drop(replaced)
