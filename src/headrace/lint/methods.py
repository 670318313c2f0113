"""Methods of Spark's classes, by what calling them gives."""

from __future__ import annotations


def named(names: str) -> frozenset[str]:
    """The names in a text, which stand apart by spaces."""
    return frozenset(names.split())


# Of a DataFrame: what runs it, which a stream has no answer to.
ACTIONS = named(
    "collect count show toPandas toArrow take head first tail foreach foreachPartition isEmpty toLocalIterator"
)
KEEPING = frozenset(("cache", "persist", "checkpoint", "localCheckpoint"))
GROUPING = frozenset(("groupBy", "groupby", "rollup", "cube", "groupingSets"))
# Of a DataFrame: what gives no DataFrame, and runs nothing.
ASIDE = named(
    "printSchema explain createTempView createOrReplaceTempView createGlobalTempView "
    "createOrReplaceGlobalTempView writeTo mergeInto plot isLocal inputFiles sameSemantics semanticHash toJSON"
)
# Of a DataFrame that groups have been made of: what gives a DataFrame.
AGGREGATING = named(
    "agg count sum avg mean min max apply applyInPandas applyInArrow applyInPandasWithState "
    "transformWithState transformWithStateInPandas"
)
# Of these, what computes one row a group, for which an output mode matters.
REDUCING = named("agg count sum avg mean min max")
# Of a reader: what gives the DataFrame.
LOADING = named("load table json csv parquet orc xml text avro jdbc")
# Of the writer of a stream: what begins it. Its last two are the vendor's, or of the writer of a batch.
STARTING = frozenset(("start", "toTable", "table", "saveAsTable"))
SAVING = named("save saveAsTable insertInto json csv parquet orc xml text jdbc")
# What only a StreamingQuery has.
OF_QUERIES = frozenset(("lastProgress", "recentProgress", "awaitTermination", "processAllAvailable", "runId"))
# Formats of files.
FILES = named("parquet json csv orc text xml avro")
