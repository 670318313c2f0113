"""Bronze: the feed as it lands, every line of it, and the reference data beside it.

Nothing is judged or mended here. What bronze does not keep is lost for good; what it keeps can be looked at again.
"""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace import pipelines as dp

PROJECT = Path(__file__).parent.parent

FLIGHT = """
    year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT,
    arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT,
    hour INT, minute INT, time_hour TIMESTAMP
"""


def landed(name: str) -> str:
    """The path of a part of the feed."""
    return str(PROJECT / spark.conf.get("flights.landing", "landing") / name)


@dp.streaming_table(comment="Every line of the feed, once, as it landed; what does not fit is in _rescued_data")
def flights_raw() -> DataFrame:
    return (
        # Auto Loader: each file once, whenever it lands. The columns are inferred from the files, a field that turns up
        # later becomes a column, and what does not fit, down to a line that is no JSON, is kept as it was written.
        spark.readStream.format("cloudFiles")
        .option("cloudFiles.format", "json")
        # Types that are known need not be guessed.
        .option("cloudFiles.schemaHints", FLIGHT)
        # Files of an hour are small.
        .option("cloudFiles.maxFilesPerTrigger", 10_000)
        .load(landed("flights"))
        .withColumn("source_file", F.col("_metadata.file_path"))
    )


@dp.materialized_view(comment="Carriers by their code")
def airlines() -> DataFrame:
    return spark.read.schema("carrier STRING, name STRING").json(landed("reference/airlines.json"))


@dp.materialized_view(comment="Airports by their FAA code")
def airports() -> DataFrame:
    return spark.read.schema("faa STRING, name STRING, lat DOUBLE, lon DOUBLE").json(landed("reference/airports.json"))


@dp.materialized_view(comment="Aircraft by their tail number")
def planes() -> DataFrame:
    schema = "tailnum STRING, year INT, manufacturer STRING, model STRING, engines INT, seats INT"
    return spark.read.schema(schema).json(landed("reference/planes.json"))


@dp.materialized_view(comment="The weather at the three airports of New York, hour by hour")
def weather() -> DataFrame:
    schema = "origin STRING, time_hour TIMESTAMP, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE"
    return spark.read.schema(schema).json(landed("reference/weather.json"))
