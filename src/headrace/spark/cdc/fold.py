"""Change events of some keys to the rows that they lead to, by Spark: what ``headrace.cdc.history`` defines.

A frame of events has the columns ``key`` (struct), ``sequence``, ``deleted`` (boolean), ``row`` (struct of the target's
columns, NULL for a delete), ``sets`` (array of column names, NULL for all) and ``origin``, one of the constants below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from headrace.cdc.scd_spec import ScdSpec, ScdType
from headrace.model.names import quoted

# Where an event was taken from: the batch, the table that remembers events, or the rows of the target.
BATCH, REMEMBERED, TARGET = 0, 1, 2
# Of events for a table with two times, the column that says since when they are known.
SYSTEM = "system"


def folded(events: DataFrame, shape: ScdSpec) -> DataFrame:
    """The events that count, each with the version of the row that it belongs to.

    Args:
        events: all that is known of some keys; an event that is remembered hides what the target says of its sequence.
        shape: how events become rows.

    Returns:
        The events without ties, and of each ``begins`` (it begins a version), ``begun`` and ``ended`` (the sequences of
        its version), ``version`` (its number within the key), ``lasts`` (it is the last of its version), ``state``
        (struct: the row after it) and ``told`` (the target will say as much as the event). Of the batch's events,
        ``events`` is how many have the sequence, ``tied`` how many of them lost to another one, ``blanks`` says that
        the one that counts put NULL where a value was, and ``lone`` names the column in which alone a version that it
        begins differs from the one before.
    """
    names = shape.columns
    types = {field.name: field.dataType for field in _row_type(events).fields}
    by_key = Window.partitionBy("key").orderBy("sequence")
    until_now = by_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rows = without_ties(events, shape)
    rows = rows.withColumn("fresh", F.coalesce(F.lag("deleted").over(by_key), F.lit(True)))
    if shape.whole_rows:
        rows = rows.withColumn("state", F.col("row"))
    else:
        rows = rows.withColumn("life", F.sum(F.col("deleted").cast("int")).over(until_now))
        in_life = Window.partitionBy("key", "life").orderBy("sequence")
        in_life = in_life.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        # Inside of a struct a NULL that was set is told from one that was not.
        kept = [
            F.last(F.when(is_set(name, shape), F.struct(_of_row(name).alias("value"))), ignorenulls=True).over(in_life)
            for name in names
        ]
        state = F.struct(*[value.getField("value").alias(name) for value, name in zip(kept, names, strict=True)])
        rows = rows.withColumn("state", F.when(~F.col("deleted"), state))
    before = F.lag("state").over(by_key)
    blanked = [
        F.col("state").getField(name).isNull() & before.getField(name).isNotNull()
        for name in names
        if name not in shape.keys
    ]
    blanks = reduce(Column.__or__, blanked, F.lit(False)) & (F.col("origin") == BATCH) & ~F.col("deleted")
    rows = rows.withColumn("blanks", F.coalesce(blanks, F.lit(False)))
    tracked = [name for name in names if name in shape.begins_versions]
    if tracked:
        values = [
            comparable(F.col("state").getField(name), types[name]).alias(f"c{n}") for n, name in enumerate(tracked)
        ]
        rows = rows.withColumn("tracked", F.struct(*values))
        rows = rows.withColumn("was", F.lag("tracked").over(by_key))
        changed = ~F.col("tracked").eqNullSafe(F.col("was"))
        lone = _lone({name: f"c{n}" for n, name in enumerate(tracked) if name not in shape.keys})
    else:
        changed, lone = F.lit(False), F.lit(None).cast("string")
    rows = rows.withColumn("begins", ~F.col("deleted") & (F.col("fresh") | changed))
    follows = F.col("begins") & ~F.col("fresh") & (F.col("origin") == BATCH)
    rows = rows.withColumn("lone", F.when(follows, lone))
    rows = rows.withColumn("bounds", F.col("deleted") | F.col("begins"))
    rows = rows.withColumn("version", F.sum(F.col("bounds").cast("int")).over(until_now))
    after = by_key.rowsBetween(1, Window.unboundedFollowing)
    rows = rows.withColumn("ended", F.first(F.when(F.col("bounds"), F.col("sequence")), ignorenulls=True).over(after))
    version = Window.partitionBy("key", "version")
    rows = rows.withColumn("begun", F.min("sequence").over(version))
    rows = rows.withColumn("lasts", F.col("sequence") == F.max("sequence").over(version))
    rows = rows.withColumn("told", _told(rows, shape, version))
    return rows.drop("fresh", "hides", "life", "tracked", "was", "bounds")


def versions(rows: DataFrame, shape: ScdSpec) -> DataFrame:
    """The rows of the target: ``key``, ``state`` (struct), ``begun``, ``ended`` (NULL for what is open)."""
    found = rows.filter(F.col("lasts") & ~F.col("deleted"))
    if shape.scd_type is ScdType.ONE:
        found = found.filter(F.col("ended").isNull())
    return found.select("key", "state", "begun", "ended")


def without_ties(events: DataFrame, shape: ScdSpec) -> DataFrame:
    """One event for each key and sequence: a delete wins, or loses if upserts do, then the greatest row.

    ``hides`` says that one of them is remembered, so that the target will not be asked about the sequence. Where
    upserts win, a delete that is remembered says nothing against a row of the target, which an upsert has made.
    ``events`` are those of the batch, and ``tied`` of them lost to another one.
    """
    row_type = _row_type(events)
    said = [
        (F.col("deleted") != F.lit(shape.upserts_win)).alias("first"),
        *[
            comparable(F.col("row").getField(name), row_type[name].dataType).alias(f"c{n}")
            for n, name in enumerate(shape.columns)
        ],
        F.array_sort("sets").alias("sets"),
    ]
    told = [F.col("deleted"), *parts_of(F.col("row"), row_type), F.array_sort("sets")]
    # Of equal ones that of the batch is the last to be asked: a repeated event does nothing that could be counted.
    weighed = events.withColumn("weight", F.struct(*said, "origin")).withColumn("digest", digest(told))
    parts = F.struct("deleted", "row", "sets", "origin")
    own = F.when(F.col("origin") != TARGET, parts)
    own_weight = F.when(F.col("origin") != TARGET, F.col("weight"))
    of_batch, remembered = F.col("origin") == BATCH, F.col("origin") == REMEMBERED
    hides = remembered & ~F.col("deleted") if shape.upserts_win else remembered
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


def digest(said: Sequence[Column]) -> Column:
    """A number that is the same for events which say the same, and hardly ever for others.

    The hash passes over NULLs, so that which of the values are NULL is a part of what is said.
    """
    return F.xxhash64(*said, *[part.isNull() for part in said])


def parts_of(row: Column, kind: DataType) -> list[Column]:
    """The values of a row for a digest: what has parts is a text, in which those that are NULL are told apart."""
    assert isinstance(kind, StructType)  # noqa: S101 - what a row is
    found = []
    for field in kind.fields:
        value = comparable(row.getField(field.name), field.dataType)
        if isinstance(field.dataType, (StructType, ArrayType, MapType)):
            value = F.to_json(F.struct(value.alias("v")), {"ignoreNullFields": "false"})
        found.append(value)
    return found


def comparable(value: Column, kind: DataType) -> Column:
    """A value that can be compared and ordered, equal exactly where the given one is: maps become sorted entries."""
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


def _lone(fields: Mapping[str, str]) -> Column:
    """The name of the one column that is not as it was; NULL where there are more, or no other could be.

    Args:
        fields: of each column, the field that it is in ``tracked``, and was in ``was``.
    """
    if len(fields) < 2:
        return F.lit(None).cast("string")
    changed = {name: ~F.col(f"tracked.{field}").eqNullSafe(F.col(f"was.{field}")) for name, field in fields.items()}
    names = [F.when(differs, F.lit(name)) for name, differs in changed.items()]
    count = reduce(Column.__add__, [differs.cast("int") for differs in changed.values()])
    return F.when(count == 1, F.coalesce(*names))


def _told(rows: DataFrame, shape: ScdSpec, version: WindowSpec) -> Column:
    """Whether the rows of the target will say as much as an event does, so that it need not be remembered.

    Nothing is told of a sequence of which something is remembered. A delete is told by the end of a version, where ends
    are kept. An upsert is told by the version that it begins, if it sets every column and nothing after it has changed
    the row since.
    """
    types = _row_type(rows)
    if shape.scd_type is ScdType.ONE:
        return ~F.col("deleted") & ~F.col("hides") & F.lit(shape.whole_rows)
    left = F.max_by("state", "sequence").over(version)
    same = comparable(F.col("row"), types).eqNullSafe(comparable(left, types))
    told = F.when(F.col("deleted"), ~F.col("fresh")).otherwise(F.col("begins") & F.col("sets").isNull() & same)
    return told & ~F.col("hides")


def is_set(name: str, shape: ScdSpec) -> Column:
    """Whether an event sets a column, be it to NULL."""
    said = ~F.col("deleted")
    if shape.partial and name not in shape.keys:
        said = said & (F.col("sets").isNull() | F.array_contains("sets", name.lower()))
    return said & _of_row(name).isNotNull() if name in shape.null_keeps else said


def _of_row(name: str) -> Column:
    return F.col(f"row.{quoted(name)}")


def _row_type(events: DataFrame) -> StructType:
    found = events.schema["row"].dataType
    assert isinstance(found, StructType)  # noqa: S101 - what a frame of events is
    return found
