"""Silver: what is known of planes and airlines, and since when, out of registries that tell only what has changed.

The events come late, twice and in any order. The rows follow from the set of them alone.
"""

from pathlib import Path

from pyspark.sql import DataFrame

from headrace import pipelines as dp

PROJECT = Path(__file__).parent.parent


def changes(registry: str, columns: str) -> DataFrame:
    """What a registry has told, as a stream."""
    return (
        spark.readStream.format("cloudFiles")
        .option("cloudFiles.format", "json")
        .option("cloudFiles.schemaHints", f"{columns}, operation STRING, changed_at TIMESTAMP")
        .load(str(PROJECT / spark.conf.get("flights.landing", "landing") / "changes" / registry))
    )


@dp.temporary_view
def plane_changes() -> DataFrame:
    return changes("planes", "tailnum STRING, carrier STRING, airport STRING, manufacturer STRING, model STRING")


@dp.temporary_view
def airline_changes() -> DataFrame:
    return changes("airlines", "carrier STRING, name STRING, airport STRING, planes INT")


# SCD type 2: each version of a row, from __START_AT until before __END_AT; the one that holds now has no end. What the
# target does not need (the operation, what did not fit) is left out by naming what it has.
dp.create_streaming_table("plane_history", comment="Who flies a plane, and from which airport of New York, over time")
dp.create_auto_cdc_flow(
    target="plane_history",
    source="plane_changes",
    keys=["tailnum"],
    sequence_by="changed_at",
    apply_as_deletes="operation = 'delete'",
    column_list=["tailnum", "carrier", "airport", "manufacturer", "model"],
    stored_as_scd_type=2,
)

dp.create_streaming_table(
    "airline_history", comment="An airline's airport in New York and how many planes it flies there"
)
dp.create_auto_cdc_flow(
    target="airline_history",
    source="airline_changes",
    keys=["carrier"],
    sequence_by="changed_at",
    apply_as_deletes="operation = 'delete'",
    column_list=["carrier", "name", "airport", "planes"],
    stored_as_scd_type=2,
)
