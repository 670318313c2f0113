"""The second project of the campaign: merges change events into tables of SCD type 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator

# The tables; each merges the same events in a different way.
MERGED = ("newest", "kept", "versions")
EVENTS = 40

_KEYS = 11
_CITIES = ("Oslo", "Rome", "Bern", None)
PIPELINE = """\
from headrace import pipelines as dp

SCHEMA = "id BIGINT, city STRING, amount BIGINT, version BIGINT, operation STRING"


@dp.temporary_view
def events():
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json({changes!r})


def merged(name, hidden, **more):
    dp.create_streaming_table(name, expect_all_or_drop={{"amount is possible": "amount < 95"}})
    dp.create_auto_cdc_flow(
        target=name,
        source="events",
        keys=["id"],
        sequence_by="version",
        apply_as_deletes="operation = 'delete'",
        except_column_list=["operation", *hidden],
        **more,
    )


# The newest event of a key decides, and deletes are remembered.
merged("newest", [])
# Rows are built anew, out of events that are remembered.
merged("kept", ["version"], ignore_null_updates_column_list=["city"])
merged("versions", ["version"], stored_as_scd_type=2)
"""


def rows_of_slice(number: int) -> Iterator[dict[str, object]]:
    """The events of one file: unordered, with ties, deletes and NULLs, also in keys and sequences."""
    for position in range(EVENTS):
        row = number * EVENTS + position
        yield {
            "id": None if row % 29 == 0 else row * 7919 % _KEYS,
            "city": _CITIES[row * 31 % len(_CITIES)],
            "amount": row * 13 % 100,
            "version": None if row % 37 == 0 else row * 5347 % 61 // 3,
            "operation": "delete" if row % 6 == 5 else "upsert",
        }
