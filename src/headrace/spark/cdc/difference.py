"""The difference between the current and the wanted rows of a table, as one MERGE.

Rows have ``key`` and ``state`` (structs of the table's columns) and, for the validity columns of the table,
``valid_from`` and ``valid_to``, ``since`` and ``until``.
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
from headrace.spark.cdc.merge_batch import key_columns
from headrace.spark.cdc.merge_plan import SOURCE_ALIAS, Merge, match_condition

INSERT, UPDATE, DELETE = "insert", "update", "delete"
_TIMES = {START_AT: "valid_from", END_AT: "valid_to", SYSTEM_START_AT: "since", SYSTEM_END_AT: "until"}


def current_rows(target: DataFrame, spec: ScdSpec, *more: Column) -> DataFrame:
    """The rows of a table, with *more* columns computed from them."""
    key, state = (F.struct(*[F.col(quoted(name)).alias(name) for name in names]) for names in (spec.keys, spec.columns))
    times = [F.col(name).alias(_TIMES[name]) for name in spec.validity_columns]
    return target.select(key.alias("key"), state.alias("state"), *times, *more)


def difference(after: DataFrame, current: DataFrame, spec: ScdSpec) -> DataFrame:
    """The differences between the wanted rows (*after*) and the *current* ones, for :func:`build_merge`."""
    times = [_TIMES[name] for name in spec.validity_columns]
    begins, ends = times[::2], times[1::2]
    same = reduce(Column.__and__, [F.col(f"n.{name}") == F.col(f"c.{name}") for name in ("key", *begins)])
    kind = after.schema["state"].dataType
    equal = comparable(F.col("n.state"), kind).eqNullSafe(comparable(F.col("c.state"), kind))
    for name in ends:
        equal = equal & F.col(f"n.{name}").eqNullSafe(F.col(f"c.{name}"))
    action = F.when(F.col("c.key").isNull(), INSERT).when(F.col("n.key").isNull(), DELETE).when(~equal, UPDATE)
    found = after.alias("n").join(current.alias("c"), same, "full_outer")
    identity = [F.coalesce(f"n.{name}", f"c.{name}").alias(name) for name in ("key", *begins)]
    values = [F.col(f"n.{name}").alias(name) for name in ("state", *ends)]
    return found.select(action.alias("action"), *identity, *values).filter("action IS NOT NULL")


def build_merge(changes: DataFrame, spec: ScdSpec, keys: KeyRange | None = None) -> Merge:
    """The merge that applies *changes* to a table.

    Args:
        changes: eagerly cached rows with ``action``, one of the constants above; unique by key and start times.
        spec: the columns of the table.
        keys: the range of the changed keys.
    """
    action = F.col(f"{SOURCE_ALIAS}.action")
    identity, keys = key_columns(spec.keys, "key"), keys or KeyRange()
    identity |= {name: F.col(f"{SOURCE_ALIAS}.{_TIMES[name]}") for name in spec.validity_columns[::2]}
    values = {name: F.col(f"{SOURCE_ALIAS}.state.{quoted(name)}") for name in spec.columns}
    values |= {name: F.col(f"{SOURCE_ALIAS}.{_TIMES[name]}") for name in spec.validity_columns}
    return Merge(
        source=changes,
        matches=match_condition(identity, keys),
        deletes=action == DELETE,
        updates=action == UPDATE,
        inserts=action == INSERT,
        values=values,
        identity=identity,
        keys=keys,
        is_small=is_small(changes),
        is_exact=True,
    )
