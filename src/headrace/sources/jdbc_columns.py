"""Database columns: their Spark types, and their values as Arrow arrays.

A type without an equivalent in Spark maps as in Spark's own JDBC source (``PostgresDialect.scala``); anything else is
text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.autoloader.reading.conversion.arrow_types import arrow_type, decimal_of
from headrace.errors import PipelineError
from headrace.model.ddl import JsonType, array_of
from headrace.model.time_zones import zone_of

if TYPE_CHECKING:
    import sqlalchemy as sa

_MAX_DIGITS = 38
_UNBOUNDED_DECIMAL = "decimal(38,18)"
# Types whose values can be positions: they are ordered, and JSON preserves them.
ORDERED = frozenset(
    ("byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz")
)


@dataclass(frozen=True)
class JdbcColumn:
    """A column to read.

    Attributes:
        name: as in the database.
        kind: the Spark type.
        as_text: the database casts it to text.
        naive: the database's times have no zone, although Spark's have one.
    """

    name: str
    kind: JsonType
    as_text: bool = False
    naive: bool = False

    @property
    def is_orderable(self) -> bool:
        """True if the column can be the cursor of a stream."""
        return isinstance(self.kind, str) and (self.kind in ORDERED or decimal_of(self.kind) is not None)

    def sql(self) -> sa.ColumnElement[Any]:
        """The column as a SQL expression."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        if self.as_text:
            column: sa.ColumnElement[Any] = sa.column(self.name)
            return sa.cast(column, sa.Text)
        return sa.column(self.name, _sql_type(self.kind, naive=self.naive))


def column_of(name: str, kind: Any, *, ntz: bool) -> JdbcColumn | None:
    """The column for a database type; None if the type is unknown.

    Args:
        name: of the column.
        kind: the SQLAlchemy type.
        ntz: read times without a zone as TIMESTAMP_NTZ.
    """
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if isinstance(kind, sa.ARRAY):
        element = column_of(name, kind.item_type, ntz=True)
        if element is None or element.as_text or element.kind == "binary":
            return JdbcColumn(name, "string", as_text=True)
        spark_type = element.kind
        for _ in range(kind.dimensions or 1):
            spark_type = array_of(spark_type)
        return JdbcColumn(name, spark_type)
    if isinstance(kind, sa.DateTime):
        zoned = bool(kind.timezone)
        return JdbcColumn(name, "timestamp" if zoned or not ntz else "timestamp_ntz", naive=not zoned)
    if isinstance(kind, sa.Numeric) and not isinstance(kind, sa.Float):
        return JdbcColumn(name, _decimal(kind.precision, kind.scale))
    if isinstance(kind, sa.types.NullType):
        return None
    if isinstance(kind, sa.Enum):
        # A subclass of String in SQLAlchemy, but the database does not compare it with text.
        return JdbcColumn(name, "string", as_text=True)
    found = next((spark_type for types, spark_type in _plain_types() if isinstance(kind, types)), None)
    return JdbcColumn(name, found or "string", as_text=found is None)


def _plain_types() -> Sequence[tuple[Any, str]]:
    """The types with a Spark equivalent, subclasses before their base classes."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    return (
        (sa.REAL, "float"),
        (sa.Float, "double"),
        (sa.Boolean, "boolean"),
        (sa.SmallInteger, "short"),
        (sa.BigInteger, "long"),
        (sa.Integer, "integer"),
        (sa.Date, "date"),
        (sa.LargeBinary, "binary"),
        (sa.String, "string"),
    )


def _decimal(precision: int | None, scale: int | None) -> str:
    if precision is None:
        return _UNBOUNDED_DECIMAL
    return f"decimal({min(precision, _MAX_DIGITS)},{min(scale or 0, _MAX_DIGITS)})"


def _sql_type(kind: JsonType, *, naive: bool) -> Any:
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    digits = decimal_of(kind)
    if digits is not None:
        return sa.Numeric(*digits)
    if kind in ("timestamp", "timestamp_ntz"):
        return sa.DateTime(timezone=not naive)
    types: Mapping[str, Any] = {
        "boolean": sa.Boolean,
        "byte": sa.SmallInteger,
        "short": sa.SmallInteger,
        "integer": sa.Integer,
        "long": sa.BigInteger,
        # With 24 bits; otherwise PostgreSQL compares stored values with more digits than they have.
        "float": partial(sa.Float, 24),
        "double": sa.Double,
        "date": sa.Date,
        "binary": sa.LargeBinary,
        "string": sa.String,
    }
    return types[kind]() if isinstance(kind, str) and kind in types else sa.types.NullType()


def arrays_of(columns: Sequence[JdbcColumn], rows: Sequence[Sequence[Any]], zone: str) -> list[pa.Array]:
    """Database rows as one Arrow array per column.

    Raises:
        PipelineError: ``JDBC.VALUE``: a value does not fit its column's type.
    """
    found = []
    for number, column in enumerate(columns):
        values = [row[number] for row in rows]
        try:
            found.append(pa.array(map(_converter(column, zone), values), arrow_type(column.kind)))
        except (pa.ArrowInvalid, pa.ArrowTypeError, InvalidOperation, TypeError, ValueError, OverflowError) as error:
            reason = str(error).splitlines()[0].rstrip(".") if str(error) else "it does not fit"
            kind = column.kind if isinstance(column.kind, str) else column.kind["type"]
            raise PipelineError("JDBC.VALUE", column=column.name, type=kind, reason=reason) from None
    return found


def _converter(column: JdbcColumn, zone: str) -> Callable[[Any], Any]:
    kind = column.kind
    digits = decimal_of(kind)
    if digits is not None:
        return _decimals(*digits)
    if kind == "timestamp":
        return _zoned(zone)
    if kind == "timestamp_ntz":
        return _without_zone
    if kind == "binary":
        return lambda value: None if value is None else bytes(value)
    if kind == "string":
        return lambda value: value if value is None or isinstance(value, str) else str(value)
    return lambda value: value


def _decimals(precision: int, scale: int) -> Callable[[Any], Decimal | None]:
    context, step = Context(prec=precision, rounding=ROUND_HALF_UP), Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal | None:
        return None if value is None else Decimal(str(value)).quantize(step, context=context)

    return convert


def _zoned(zone: str) -> Callable[[Any], datetime | None]:
    session = zone_of(zone)

    def convert(value: Any) -> datetime | None:
        if value is None:
            return None
        if not isinstance(value, datetime):
            raise TypeError(f'"{value}" is not a valid time')
        return (value if value.tzinfo else value.replace(tzinfo=session)).astimezone(UTC)

    return convert


def _without_zone(value: Any) -> datetime | None:
    if value is not None and not isinstance(value, datetime):
        raise TypeError(f'"{value}" is not a valid time')
    return value
