"""Folds change events of some keys into rows, with Spark: implements ``headrace.cdc.history``.

A frame of events has the columns ``key`` (struct), ``sequence``, ``deleted`` (boolean), ``row`` (struct of the target's
columns, NULL for a delete), ``sets`` (array of column names, NULL for all) and ``origin``, one of the constants below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from headrace.cdc.scd_spec import ScdSpec
from headrace.model.names import quoted

# Where an event comes from: the batch, the table of retained events, or the rows of the target.
BATCH, RETAINED, TARGET = 0, 1, 2
# The column for when an event became known, for bitemporal tables.
SYSTEM = "system"


def fold_events(events: DataFrame, spec: ScdSpec) -> DataFrame:
    """The winning events, each with its version of the row.

    Args:
        events: all known events of some keys; a retained event hides the target's event with the same sequence.
        spec: how events become rows.

    Returns:
        One event per key and sequence, with ``begins`` (it begins a version), ``valid_from`` and ``valid_to`` (the
        sequences of its version), ``version`` (number of the version within the key), ``lasts`` (it is the last event
        of its version), ``state`` (struct: the row after the event) and ``derivable`` (the event will be derivable
        from the target). For events of the batch also: ``events`` (how many have the sequence), ``tied`` (how many of
        these lost), ``blanks`` (the winner overwrites a value with NULL) and ``lone`` (the only column in which the
        version that it begins differs from the one before).
    """
    names = spec.columns
    types = {field.name: field.dataType for field in _row_type(events).fields}
    by_key = Window.partitionBy("key").orderBy("sequence")
    until_now = by_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rows = resolve_sequence_conflicts(events, spec)
    rows = rows.withColumn("fresh", F.coalesce(F.lag("deleted").over(by_key), F.lit(True)))
    if spec.events_are_full_rows:
        rows = rows.withColumn("state", F.col("row"))
    else:
        rows = rows.withColumn("life", F.sum(F.col("deleted").cast("int")).over(until_now))
        in_life = Window.partitionBy("key", "life").orderBy("sequence")
        in_life = in_life.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        # The struct distinguishes a column that was set to NULL from one that was not set.
        latest = [
            F.last(F.when(is_set(name, spec), F.struct(_of_row(name).alias("value"))), ignorenulls=True).over(in_life)
            for name in names
        ]
        state = F.struct(*[value.getField("value").alias(name) for value, name in zip(latest, names, strict=True)])
        rows = rows.withColumn("state", F.when(~F.col("deleted"), state))
    before = F.lag("state").over(by_key)
    blanked = [
        F.col("state").getField(name).isNull() & before.getField(name).isNotNull()
        for name in names
        if name not in spec.keys
    ]
    blanks = reduce(Column.__or__, blanked, F.lit(False)) & (F.col("origin") == BATCH) & ~F.col("deleted")
    rows = rows.withColumn("blanks", F.coalesce(blanks, F.lit(False)))
    tracked = [name for name in names if name in spec.versioning_columns]
    if tracked:
        values = [
            comparable(F.col("state").getField(name), types[name]).alias(f"c{n}") for n, name in enumerate(tracked)
        ]
        rows = rows.withColumn("tracked", F.struct(*values))
        rows = rows.withColumn("was", F.lag("tracked").over(by_key))
        changed = ~F.col("tracked").eqNullSafe(F.col("was"))
        lone = _only_change({name: f"c{n}" for n, name in enumerate(tracked) if name not in spec.keys})
    else:
        changed, lone = F.lit(False), F.lit(None).cast("string")
    rows = rows.withColumn("begins", ~F.col("deleted") & (F.col("fresh") | changed))
    follows = F.col("begins") & ~F.col("fresh") & (F.col("origin") == BATCH)
    rows = rows.withColumn("lone", F.when(follows, lone))
    rows = rows.withColumn("bounds", F.col("deleted") | F.col("begins"))
    rows = rows.withColumn("version", F.sum(F.col("bounds").cast("int")).over(until_now))
    after = by_key.rowsBetween(1, Window.unboundedFollowing)
    rows = rows.withColumn(
        "valid_to", F.first(F.when(F.col("bounds"), F.col("sequence")), ignorenulls=True).over(after)
    )
    version = Window.partitionBy("key", "version")
    rows = rows.withColumn("valid_from", F.min("sequence").over(version))
    rows = rows.withColumn("lasts", F.col("sequence") == F.max("sequence").over(version))
    rows = rows.withColumn("derivable", _is_derivable(rows, spec, version))
    return rows.drop("fresh", "hides", "life", "tracked", "was", "bounds")


def target_versions(rows: DataFrame, spec: ScdSpec) -> DataFrame:
    """The rows of the target: ``key``, ``state`` (struct), ``valid_from``, ``valid_to`` (NULL for open versions)."""
    found = rows.filter(F.col("lasts") & ~F.col("deleted"))
    if not spec.keeps_versions:
        found = found.filter(F.col("valid_to").isNull())
    return found.select("key", "state", "valid_from", "valid_to")


def resolve_sequence_conflicts(events: DataFrame, spec: ScdSpec) -> DataFrame:
    """One event per key and sequence: a delete wins (or loses, if upserts win), then the greatest row.

    ``hides`` is true if one of the events is retained, so that the target's event does not count. If upserts win, a
    retained delete does not hide the target's event, which is an upsert. ``events`` is the number of events in the
    batch, and ``tied`` how many of them lost.
    """
    row_type = _row_type(events)
    order = [
        (F.col("deleted") != F.lit(spec.upserts_win)).alias("first"),
        *[
            comparable(F.col("row").getField(name), row_type[name].dataType).alias(f"c{n}")
            for n, name in enumerate(spec.columns)
        ],
        F.array_sort("sets").alias("sets"),
    ]
    content = [F.col("deleted"), *digest_parts(F.col("row"), row_type), F.array_sort("sets")]
    # Of equal events the one of the batch comes last, because a repeated event has no effect to count.
    weighed = events.withColumn("weight", F.struct(*order, "origin")).withColumn("digest", digest(content))
    parts = F.struct("deleted", "row", "sets", "origin")
    own = F.when(F.col("origin") != TARGET, parts)
    own_weight = F.when(F.col("origin") != TARGET, F.col("weight"))
    of_batch, retained = F.col("origin") == BATCH, F.col("origin") == RETAINED
    hides = retained & ~F.col("deleted") if spec.upserts_win else retained
    grouped = weighed.groupBy("key", "sequence").agg(
        F.count_if(of_batch).alias("events"),
        (F.max(F.when(of_batch, F.col("digest"))) != F.min(F.when(of_batch, F.col("digest")))).alias("differ"),
        F.max(hides).alias("hides"),
        F.max_by(parts, F.col("weight")).alias("any"),
        F.max_by(own, own_weight).alias("own"),
    )
    best = F.when(F.col("hides"), F.col("own")).otherwise(F.col("any"))
    tied = F.when(F.col("differ"), F.col("events") - 1).otherwise(0)
    columns = ("key", "sequence", "hides", "events", "tied")
    return grouped.select(*columns[:-1], tied.alias("tied"), best.alias("best")).select(*columns, "best.*")


def digest(values: Sequence[Column]) -> Column:
    """A hash that is equal for events with equal values, and very rarely for others.

    The hash function ignores NULLs, so the positions of NULLs are hashed too.
    """
    return F.xxhash64(*values, *[value.isNull() for value in values])


def digest_parts(row: Column, kind: DataType) -> list[Column]:
    """The values of a row for a digest: nested values as JSON text, which shows their NULLs."""
    assert isinstance(kind, StructType)  # noqa: S101 - the row of an event
    found = []
    for field in kind.fields:
        value = comparable(row.getField(field.name), field.dataType)
        if isinstance(field.dataType, (StructType, ArrayType, MapType)):
            value = F.to_json(F.struct(value.alias("v")), {"ignoreNullFields": "false"})
        found.append(value)
    return found


def comparable(value: Column, kind: DataType) -> Column:
    """An equivalent value that can be compared and ordered: maps become sorted entries."""
    if not _unordered(kind):
        return value
    if isinstance(kind, StructType):
        parts = [comparable(value.getField(field.name), field.dataType).alias(field.name) for field in kind.fields]
        return F.when(value.isNotNull(), F.struct(*parts))
    if isinstance(kind, ArrayType):
        inner = kind.elementType
        return F.transform(value, lambda element: comparable(element, inner))
    if isinstance(kind, MapType):
        key, inner = kind.keyType, kind.valueType
        entries = F.transform(
            F.map_entries(value),
            lambda entry: F.struct(
                comparable(entry.getField("key"), key).alias("key"),
                comparable(entry.getField("value"), inner).alias("value"),
            ),
        )
        return F.array_sort(entries)
    return F.to_json(value)


def _unordered(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_unordered(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _unordered(kind.elementType)
    return isinstance(kind, (MapType, VariantType))


def _only_change(fields: Mapping[str, str]) -> Column:
    """The name of the only column that has changed; NULL if several have, or only one could.

    Args:
        fields: for each column its field in ``tracked`` and ``was``.
    """
    if len(fields) < 2:
        return F.lit(None).cast("string")
    changed = {name: ~F.col(f"tracked.{field}").eqNullSafe(F.col(f"was.{field}")) for name, field in fields.items()}
    names = [F.when(differs, F.lit(name)) for name, differs in changed.items()]
    count = reduce(Column.__add__, [differs.cast("int") for differs in changed.values()])
    return F.when(count == 1, F.coalesce(*names))


def _is_derivable(rows: DataFrame, spec: ScdSpec, version: WindowSpec) -> Column:
    """True if an event can be derived from the rows of the target, so that it need not be retained.

    No event is derivable if one with its sequence is retained. A delete is derivable from the end of a version, in
    SCD type 2. An upsert is derivable from the version that it begins, if it sets every column and no later event of
    the version has changed the row.
    """
    types = _row_type(rows)
    if not spec.keeps_versions:
        return ~F.col("deleted") & ~F.col("hides") & F.lit(spec.events_are_full_rows)
    final = F.max_by("state", "sequence").over(version)
    same = comparable(F.col("row"), types).eqNullSafe(comparable(final, types))
    derivable = F.when(F.col("deleted"), ~F.col("fresh")).otherwise(F.col("begins") & F.col("sets").isNull() & same)
    return derivable & ~F.col("hides")


def is_set(name: str, spec: ScdSpec) -> Column:
    """True if an event sets a column, also if to NULL."""
    found = ~F.col("deleted")
    if spec.partial and name not in spec.keys:
        found = found & (F.col("sets").isNull() | F.array_contains("sets", name.lower()))
    return found & _of_row(name).isNotNull() if name in spec.ignore_null_columns else found


def _of_row(name: str) -> Column:
    return F.col(f"row.{quoted(name)}")


def _row_type(events: DataFrame) -> StructType:
    found = events.schema["row"].dataType
    assert isinstance(found, StructType)  # noqa: S101 - the row of an event
    return found
