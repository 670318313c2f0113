"""Methods of Spark's classes, grouped by what they return."""

from __future__ import annotations


def name_set(names: str) -> frozenset[str]:
    """The names in a text, separated by spaces."""
    return frozenset(names.split())


# DataFrame methods that run a job; a stream has none of them.
ACTIONS = name_set(
    "collect count show toPandas toArrow take head first tail foreach foreachPartition isEmpty toLocalIterator"
)
CACHING = frozenset(("cache", "persist", "checkpoint", "localCheckpoint"))
GROUPING = frozenset(("groupBy", "groupby", "rollup", "cube", "groupingSets"))
# DataFrame methods that return no DataFrame and run no job.
NO_FRAME = name_set(
    "printSchema explain createTempView createOrReplaceTempView createGlobalTempView "
    "createOrReplaceGlobalTempView writeTo mergeInto plot isLocal inputFiles sameSemantics semanticHash toJSON"
)
# Methods of a grouped DataFrame that return a DataFrame.
AGGREGATING = name_set(
    "agg count sum avg mean min max apply applyInPandas applyInArrow applyInPandasWithState "
    "transformWithState transformWithStateInPandas"
)
# Of these, the ones that compute one row per group, for which the output mode matters.
REDUCING = name_set("agg count sum avg mean min max")
# DataFrameReader methods that return the DataFrame.
LOADING = name_set("load table json csv parquet orc xml text avro jdbc")
# DataStreamWriter methods that start the query. The last two are the vendor's, or those of a batch writer.
STARTING = frozenset(("start", "toTable", "table", "saveAsTable"))
SAVING = name_set("save saveAsTable insertInto json csv parquet orc xml text jdbc")
# Attributes that only a StreamingQuery has.
QUERY_ONLY = frozenset(("lastProgress", "recentProgress", "awaitTermination", "processAllAvailable", "runId"))
# File formats.
FILE_FORMATS = name_set("parquet json csv orc text xml avro")
