"""The rows of a Delta change feed as change events: which of them take a row away, and which say nothing."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.cdc.change_feed import CHANGE_TYPE, COMMIT_VERSION, TAKEN_AWAY
from headrace.model.names import quoted


def takes_away() -> Column:
    """True for a row as it was before its commit."""
    return F.coalesce(F.col(CHANGE_TYPE).isin(*TAKEN_AWAY), F.lit(False))


def without_replaced(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """The rows but for those that their commit has put another row of the same key in the place of.

    What is left of an update is the new row; of one that changes the key, or moves the row out of what a query lets
    through, the old one as well, which is then a delete. A commit that deletes a key and inserts it is an update of it.

    Delta gives the rows of an update to one batch (``DeltaSourceCDCSupport.filterFiles``). Whole files that a commit
    removes and adds it may give to two, where ``ScdSpec.upserts_win`` leads to the same rows.
    """
    followed = "__headrace_followed"
    commit = Window.partitionBy(*[F.col(quoted(key)) for key in keys], F.col(COMMIT_VERSION))
    marked = rows.withColumn(followed, F.max(~takes_away()).over(commit))
    return marked.filter(~takes_away() | ~F.col(followed)).drop(followed)
