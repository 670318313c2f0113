"""Gold, as a stream: departures of each hour, written once the hour can no longer change.

Written with `from pyspark import pipelines as dp`, the name of Spark's own declarative pipelines.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@dp.table(comment="Scheduled and actual departures by airport and hour; hours that are over for two days")
def departures_by_hour() -> DataFrame:
    # A table that is appended to cannot take back what it said. So an hour is written when the watermark (the latest
    # hour seen, less two days) has passed its end, and the last two days of the feed are still in Spark's memory.
    # A materialized view would have them already, at the price of counting everything again in each update.
    return (
        spark.readStream.table("unique_flights")
        .withWatermark("time_hour", "2 days")
        .groupBy(F.window("time_hour", "1 hour"), "origin")
        .agg(F.count("*").alias("scheduled"), F.count("dep_time").alias("departed"))
        .select(
            F.col("window.start").alias("hour_start"),
            F.col("window.end").alias("hour_end"),
            "origin",
            "scheduled",
            "departed",
        )
    )
