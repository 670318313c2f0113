"""Silver: flights that can be trusted, with the names that people know, one row each.

Written with `import dlt`, the older name of the same functions: files written for Databricks work as they are.
"""

import dlt
from pyspark.sql import DataFrame


# An expectation is a name and a condition that every row should satisfy; NULL counts as not satisfied. The decorator
# says what becomes of a row that breaks it. A row that breaks several meets the strictest: fail, then quarantine, then
# drop, then warn. Each row of bronze is therefore in exactly one place: written, dropped or quarantined.
@dlt.table(comment="Flights that can be true, with airline, destination and aircraft")
# Stop the update before anything is written: with an airport that is not New York's, this is some other feed.
@dlt.expect_or_fail("from_new_york", "unreadable IS NOT NULL OR origin IN ('EWR', 'JFK', 'LGA')")
# Set the row aside in flights_quarantine, to be looked at, mended and replayed.
@dlt.expect_or_quarantine("readable", "unreadable IS NULL")
@dlt.expect_all_or_quarantine(
    {
        "goes_somewhere": "distance > 0",
        "takes_time": "air_time IS NULL OR air_time > 0",
        # Pilots make up minutes in the air, never half a day.
        "no_time_travel": "arr_delay IS NULL OR arr_delay - dep_delay > -12 * 60",
    }
)
# Leave the row out: nobody could say whose flight it was.
@dlt.expect_or_drop("has_carrier", "carrier IS NOT NULL")
# Only count: the reference data has gaps, and the flight is real all the same.
@dlt.expect("known_destination", "destination IS NOT NULL")
@dlt.expect("known_aircraft", "manufacturer IS NOT NULL")
def flights() -> DataFrame:
    # Each of these is a table of one row a key: a left join adds columns and neither adds nor loses a flight. Joined
    # to a stream, a table is read anew for each batch; flights that were written before do not change.
    airlines = dlt.read("airlines").selectExpr("carrier", "name AS airline")
    airports = dlt.read("airports").selectExpr("faa AS dest", "name AS destination")
    planes = dlt.read("planes").select("tailnum", "manufacturer", "model", "seats")
    return (
        dlt.read_stream("flights_raw")
        .withColumnRenamed("_rescued_data", "unreadable")
        .join(airlines, "carrier", "left")
        .join(airports, "dest", "left")
        .join(planes, "tailnum", "left")
    )


@dlt.table(comment="Each flight once, however often it landed")
def unique_flights() -> DataFrame:
    return (
        dlt.read_stream("flights")
        .drop("unreadable", "source_file")
        # Spark remembers the flights of the last two days to know a second copy when it sees one. The feed is never
        # more than one day late, so two days forget no copy and lose no flight, however the feed is cut into batches.
        # With a bound shorter than the feed's lateness, the result would depend on that.
        .withWatermark("time_hour", "2 days")
        .dropDuplicatesWithinWatermark(["time_hour", "carrier", "flight"])
    )
