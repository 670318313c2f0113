"""Reads the state of a query from its checkpoint, with Spark's data sources ``statestore`` and ``state-metadata``.

Source: ``StateDataSource`` and ``StateMetadataSource`` of Spark 4.2. For checkpoints of format version 2, they support
no option that starts at another version than that of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, AtomicType, DataType, MapType, StructType

from headrace.errors import PipelineError
from headrace.model.rows import Rows
from headrace.spark.session.scoped_confs import with_confs
from headrace.stores.paths import StoragePath

_KEY, _PARTITION = "key", "partition_id"


@dataclass(frozen=True)
class StatePart:
    """The part of a checkpoint's state to read.

    Attributes:
        checkpoint: the checkpoint.
        batch: a completed batch.
        operator: Spark's number of the stateful operator.
        side: the side of a stream-stream join; empty for another operator.
        variable: the state variable of a ``transformWithState``; empty for another operator.
        confs: the settings under which the state opens.
    """

    checkpoint: StoragePath
    batch: int
    operator: int = 0
    side: str = ""
    variable: str = ""
    confs: Mapping[str, str] | None = None

    @property
    def options(self) -> dict[str, str]:
        """The options of Spark's reader."""
        named = {"joinSide": self.side, "stateVarName": self.variable}
        found = {"batchId": str(self.batch), "operatorId": str(self.operator)}
        return found | {name: value for name, value in named.items() if value}


@dataclass(frozen=True)
class _Leaf:
    """A column of the state, or a field of one: the names that lead to it, and its type."""

    names: tuple[str, ...]
    kind: DataType

    @property
    def column(self) -> Column:
        first, *others = self.names
        found = F.col(f"`{first}`")
        for name in others:
            found = found.getField(name)
        return found

    @property
    def is_key(self) -> bool:
        return self.names[0] == _KEY

    @property
    def short_name(self) -> str:
        """The name without that of the column, which only says whether it is the key or the value."""
        return ".".join(self.names[1:] if len(self.names) > 1 else self.names)


def state_rows(session: SparkSession, part: StatePart, keys: Sequence[str], rows: int) -> tuple[Rows, bool]:
    """Rows of a state, with the fields of keys and values as columns; and whether there are more.

    Args:
        session: the session.
        part: what to read.
        keys: conditions on fields of the key, each as ``COLUMN=VALUE``; a row has to meet all of them.
        rows: the maximum number of rows.

    Raises:
        PipelineError: STATE.BAD_KEY.
        PySparkException, Py4JJavaError: the state cannot be read.
    """
    # State stores report to an endpoint that Spark creates with a session's query manager, even when they only read.
    session.streams  # noqa: B018 - created on first use
    with with_confs(session, part.confs or {}):
        frame = session.read.format("statestore").options(**part.options).load(str(part.checkpoint))
        leaves = [*_leaves(frame.schema)]
        for condition in _conditions(session, leaves, keys):
            frame = frame.where(condition)
        names = _column_names(leaves)
        found = _selected(frame, leaves).limit(rows + 1).collect()
    return Rows(tuple(names), tuple(tuple(row) for row in found[:rows])), len(found) > rows


def state_metadata(session: SparkSession, checkpoint: StoragePath) -> Rows:
    """The stateful operators of a checkpoint, their stores, and the batches whose state can be read.

    Raises:
        PySparkException, Py4JJavaError: the metadata cannot be read.
    """
    frame = session.read.format("state-metadata").load(str(checkpoint))
    columns = ("operatorId", "operatorName", "stateStoreName", "numPartitions", "minBatchId", "maxBatchId")
    found = frame.select(*columns).orderBy("operatorId", "stateStoreName").collect()
    rows = ((*row[:4], f"{row['minBatchId']} to {row['maxBatchId']}") for row in found)
    return Rows(("operator", "kind", "store", "partitions", "batches"), tuple(rows))


def _selected(frame: DataFrame, leaves: Sequence[_Leaf]) -> DataFrame:
    # Names may be equal, so that the columns get numbers.
    return frame.select(*(leaf.column.alias(f"c{number}") for number, leaf in enumerate(leaves)))


def _leaves(schema: StructType) -> Iterator[_Leaf]:
    """The columns of a state, without the number of the partition; structs as their fields."""
    for field in schema.fields:
        if field.name != _PARTITION:
            yield from _leaves_of((field.name,), field.dataType)


def _leaves_of(names: tuple[str, ...], kind: DataType) -> Iterator[_Leaf]:
    if not isinstance(kind, StructType):
        yield _Leaf(names, kind)
        return
    for field in kind.fields:
        yield from _leaves_of((*names, field.name), field.dataType)


def _column_names(leaves: Sequence[_Leaf]) -> list[str]:
    """The names of the fields; those that a key and a value share, with the name of the column."""
    short = [leaf.short_name for leaf in leaves]
    return [name if short.count(name) == 1 else ".".join(leaf.names) for name, leaf in zip(short, leaves, strict=True)]


def _conditions(session: SparkSession, leaves: Sequence[_Leaf], keys: Sequence[str]) -> Iterator[Column]:
    by_name = {leaf.short_name: leaf for leaf in leaves if leaf.is_key}
    for text in keys:
        name, given, value = text.partition("=")
        leaf = by_name.get(name.strip())
        if not given or leaf is None:
            reason = f'the key has no column "{name.strip()}"' if given else "it is not COLUMN=VALUE"
            raise _bad_key(text, reason, by_name)
        yield leaf.column.eqNullSafe(_literal(session, text, value, leaf.kind, by_name))


def _literal(session: SparkSession, text: str, value: str, kind: DataType, known: Mapping[str, _Leaf]) -> Column:
    """A value of a key's type. It is data, never a part of a query's text."""
    if isinstance(kind, ArrayType | MapType) or not isinstance(kind, AtomicType):
        raise _bad_key(text, f"a column of type {kind.simpleString()} cannot be compared", known)
    found: Column = F.lit(value).try_cast(kind)
    row = session.range(1).select(found).first()
    if row is None or row[0] is None:
        raise _bad_key(text, f'"{value}" is no {kind.simpleString()}', known)
    return found


def _bad_key(text: str, reason: str, known: Mapping[str, _Leaf]) -> PipelineError:
    columns = ", ".join(f"{name} ({leaf.kind.simpleString()})" for name, leaf in known.items())
    return PipelineError("STATE.BAD_KEY", condition=text, reason=reason, columns=columns or "none")
