"""Rows that a query failed with, over a source whose columns have changed since."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from headrace.spark.replay.replay_query import still_fits

ID, NAME = StructField("id", IntegerType()), StructField("name", StringType())
REQUIRED = StructField("key", StringType(), nullable=False)


@pytest.mark.parametrize(
    ("columns", "fields", "fits"),
    [
        ({"id", "name"}, [ID, NAME], True),
        ({"id"}, [ID, NAME], True),
        ({"id"}, [ID, REQUIRED], False),
        ({"id", "name"}, [ID], False),
        ({"id", "other"}, [ID, NAME], False),
    ],
)
def test_a_row_fits_a_source_that_gained_only_nullable_columns(columns, fields, fits):
    assert still_fits(columns, StructType(fields)) is fits
