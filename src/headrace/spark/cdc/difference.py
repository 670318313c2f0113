"""Rows that are there, rows that should be, and what lies between them as one change of their table.

Rows have ``key`` and ``state`` (structs of a table's own columns), and for the times that their table has ``begun`` and
``ended``, ``since`` and ``until``.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.cdc.scd_spec import END_AT, START_AT, SYSTEM_END_AT, SYSTEM_START_AT, ScdSpec
from headrace.model.names import quoted
from headrace.spark.cdc.batch_cache import is_small
from headrace.spark.cdc.fold import comparable
from headrace.spark.cdc.key_range import KeyRange
from headrace.spark.cdc.merge_batch import key_in
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, Merge, same

INSERT, UPDATE, DELETE = "insert", "update", "delete"
_TIMES = {START_AT: "begun", END_AT: "ended", SYSTEM_START_AT: "since", SYSTEM_END_AT: "until"}


def rows_of(target: DataFrame, shape: ScdSpec, *more: Column) -> DataFrame:
    """The rows of a table, with *more* columns that are computed from its own."""
    key, state = (
        F.struct(*[F.col(quoted(name)).alias(name) for name in names]) for names in (shape.keys, shape.columns)
    )
    times = [F.col(name).alias(_TIMES[name]) for name in shape.times]
    return target.select(key.alias("key"), state.alias("state"), *times, *more)


def difference(after: DataFrame, current: DataFrame, shape: ScdSpec) -> DataFrame:
    """What differs between the rows that should be and those that are, as :func:`merge_of` takes it."""
    begins, ends = ([_TIMES[name] for name in names] for names in (shape.times[::2], shape.times[1::2]))
    same = reduce(Column.__and__, [F.col(f"n.{name}") == F.col(f"c.{name}") for name in ("key", *begins)])
    kind = after.schema["state"].dataType
    equal = comparable(F.col("n.state"), kind).eqNullSafe(comparable(F.col("c.state"), kind))
    for name in ends:
        equal = equal & F.col(f"n.{name}").eqNullSafe(F.col(f"c.{name}"))
    action = F.when(F.col("c.key").isNull(), INSERT).when(F.col("n.key").isNull(), DELETE).when(~equal, UPDATE)
    found = after.alias("n").join(current.alias("c"), same, "full_outer")
    told = [F.coalesce(f"n.{name}", f"c.{name}").alias(name) for name in ("key", *begins)]
    news = [F.col(f"n.{name}").alias(name) for name in ("state", *ends)]
    return found.select(action.alias("action"), *told, *news).filter("action IS NOT NULL")


def merge_of(changes: DataFrame, shape: ScdSpec, keys: KeyRange | None = None) -> Merge:
    """What brings a table to where it should be.

    Args:
        changes: settled rows with ``action``, one of the constants above; no two with the same key and beginnings.
        shape: of the table.
        keys: between which those of the changes lie.
    """
    action = F.col(f"{SOURCE_ALIAS}.action")
    identity, keys = key_in(shape.keys, "key"), keys or KeyRange()
    identity |= {name: F.col(f"{SOURCE_ALIAS}.{_TIMES[name]}") for name in shape.times[::2]}
    values = {name: F.col(f"{SOURCE_ALIAS}.state.{quoted(name)}") for name in shape.columns}
    values |= {name: F.col(f"{SOURCE_ALIAS}.{_TIMES[name]}") for name in shape.times}
    return Merge(
        source=changes,
        matches=same(identity, keys),
        deletes=action == DELETE,
        updates=action == UPDATE,
        inserts=action == INSERT,
        values=values,
        identity=identity,
        keys=keys,
        small=is_small(changes),
        exact=True,
    )
