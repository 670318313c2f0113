"""Reads ranges of a database table or query as Arrow batches.

SQLAlchemy's dialect quotes names and binds values. Only the user's query goes into a statement unchanged.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.autoloader.reading.conversion.arrow_types import arrow_schema, decimal_of
from headrace.errors import PipelineError
from headrace.model.ddl import struct_of
from headrace.sources.jdbc_columns import JdbcColumn, arrays_of, column_of
from headrace.sources.jdbc_connection import Database

if TYPE_CHECKING:
    import sqlalchemy as sa

# INTEGER and REAL of SQLite have 64 bits.
_WIDE = {"integer": "long", "float": "double"}
# Values of the cursor column and the tie-break column. Without the second: all rows with the first.
Position = list[Any]


@dataclass(frozen=True)
class Relation:
    """A table with its schema, if any, or the text of a query."""

    table: str | None = None
    schema: str | None = None
    query: str | None = None

    @property
    def description(self) -> str:
        """The relation for people."""
        return "a query" if self.table is None else ".".join(filter(None, (self.schema, self.table)))

    def sql(self) -> sa.FromClause:
        """The relation as a SQL expression."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        if self.query is not None:
            # A colon in the query is not a bind parameter. The query may end in a comment.
            return sa.text(f"{self.query}\n".replace(":", r"\:")).columns().subquery("headrace_query")
        return sa.table(str(self.table), schema=self.schema)


@dataclass(frozen=True)
class Range:
    """Rows after one position, up to and including another one; None means the beginning, or the end."""

    after: Position | None = None
    up_to: Position | None = None


@dataclass(frozen=True)
class JdbcReader:
    """A database relation and the columns to read.

    ``keys`` are the cursor column and the tie-break column, if any. They have the database's own types, not those they
    are read with: numbers read as text, or times read as dates, have another order.
    """

    database: Database
    relation: Relation
    columns: tuple[JdbcColumn, ...]
    keys: tuple[JdbcColumn, ...]
    fetch_rows: int
    zone: str

    def last_position(self, engine: sa.Engine) -> Position | None:
        """The position of the last row; None if there are no rows."""
        return self._first_row(engine, self._positions().order_by(*(key.sql().desc() for key in self.keys)).limit(1))

    def first_position(self, engine: sa.Engine, within: Range) -> Position | None:
        """The position of the first row of a range; None if the range is empty."""
        statement = self._positions().where(*self._conditions(within))
        return self._first_row(engine, statement.order_by(*(key.sql() for key in self.keys)).limit(1))

    def position_after(self, engine: sa.Engine, within: Range, rows: int) -> Position | None:
        """The position of the row with a number, from 1, within a range; None if the range has fewer rows."""
        statement = self._positions().where(*self._conditions(within))
        ordered = statement.order_by(*(key.sql() for key in self.keys))
        return self._first_row(engine, ordered.offset(rows - 1).limit(1))

    def rows(self, engine: sa.Engine, within: Range) -> Iterator[pa.RecordBatch]:
        """The rows of a range; their order is undefined."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        columns = [column.sql().label(column.name) for column in self.columns]
        statement = sa.select(*columns).select_from(self.relation.sql()).where(*self._conditions(within))
        schema = arrow_schema(self.schema_json)
        with self.database.connect(engine) as connection:
            result = connection.execution_options(yield_per=self.fetch_rows).execute(statement)
            for rows in result.partitions():
                yield pa.RecordBatch.from_arrays(arrays_of(self.columns, rows, self.zone), schema=schema)

    @property
    def schema_json(self) -> Any:
        """The columns as Spark's JSON."""
        return struct_of((column.name, column.kind) for column in self.columns)

    def split(self, engine: sa.Engine, within: Range, count: int) -> list[Range]:
        """Split a range into parts of about the same width, by the values of the cursor column."""
        if count <= 1 or within.up_to is None:
            return [within]
        first = within.after or self.first_position(engine, within)
        inner = [] if first is None else _between(self.keys[0], first[0], within.up_to[0], count)
        edges = [within.after, *([value] for value in inner), within.up_to]
        return [Range(after, up_to) for after, up_to in pairwise(edges)]

    def to_json(self, position: Position | None) -> list[Any] | None:
        """A position as JSON."""
        return None if position is None else [position_value(value) for value in position]

    def from_json(self, document: Sequence[Any] | None) -> Position | None:
        """The inverse of :meth:`to_json`."""
        if document is None:
            return None
        return [value_of(key, value) for key, value in zip(self.keys, document, strict=False)]

    def _positions(self) -> sa.Select[Any]:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        keys = [key.sql() for key in self.keys]
        return sa.select(*keys).select_from(self.relation.sql()).where(*(key.is_not(None) for key in keys))

    def _first_row(self, engine: sa.Engine, statement: sa.Select[Any]) -> Position | None:
        with self.database.connect(engine) as connection:
            row = connection.execute(statement).first()
        if row is None:
            return None
        for key, value in zip(self.keys, row, strict=True):
            if not is_storable(key, value):
                kind, reason = str(key.kind), f'cannot continue from "{value}"'
                raise PipelineError("JDBC.VALUE", column=key.name, type=kind, reason=reason)
        return list(row)

    def _conditions(self, within: Range) -> list[sa.ColumnElement[bool]]:
        """The conditions of a range. Positions compare from the left; one without a second value has all ties."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        keys = [key.sql() for key in self.keys]
        found: list[sa.ColumnElement[bool]] = [key.is_not(None) for key in keys]
        for position, is_end in ((within.after, False), (within.up_to, True)):
            if position is None:
                continue
            bounds = [
                sa.literal(value, None if key.as_text else key.sql().type)
                for key, value in zip(self.keys, position, strict=False)
            ]
            if len(bounds) == 1:
                found.append(keys[0] <= bounds[0] if is_end else keys[0] > bounds[0])
                continue
            # The first condition alone lets the database use an index.
            if is_end:
                found += [
                    keys[0] <= bounds[0],
                    sa.or_(keys[0] < bounds[0], sa.and_(keys[0] == bounds[0], keys[1] <= bounds[1])),
                ]
            else:
                found += [
                    keys[0] >= bounds[0],
                    sa.or_(keys[0] > bounds[0], sa.and_(keys[0] == bounds[0], keys[1] > bounds[1])),
                ]
        return found


def value_of(column: JdbcColumn, value: Any) -> Any:
    """A column value, from JSON or from the user's text.

    Raises:
        ValueError: it is not a value of the column's type.
    """
    kind = str(column.kind)
    if decimal_of(kind) is not None:
        return Decimal(str(value))
    if kind in ("timestamp", "timestamp_ntz"):
        moment = datetime.fromisoformat(str(value).strip())
        if not column.naive and moment.tzinfo is None:
            raise ValueError("it needs an offset, such as Z")
        if column.naive and moment.tzinfo is not None:
            raise ValueError("the column's times have no zone")
        return moment
    if kind == "date":
        return date.fromisoformat(str(value).strip())
    if kind in ("float", "double"):
        return float(value)
    return str(value) if kind == "string" else int(value)


def is_storable(column: JdbcColumn, value: Any) -> bool:
    """True if JSON preserves a value; it does not preserve infinite times and NaN."""
    try:
        return bool(value_of(column, position_value(value)) == value)
    except (ValueError, ArithmeticError):
        return False


def position_value(value: Any) -> Any:
    """A position's value as JSON."""
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _between(column: JdbcColumn, first: Any, last: Any, count: int) -> list[Any]:
    """Values that divide a range; none for texts."""
    kind = str(column.kind)
    if kind == "string":
        return []
    width = last - first
    if isinstance(width, timedelta):
        step: Any = timedelta(days=1) if kind == "date" else timedelta(microseconds=1)
        steps = width // step
        found = [first + step * (steps * number // count) for number in range(1, count)]
    elif isinstance(width, int):
        found = [first + width * number // count for number in range(1, count)]
    else:
        found = [first + width * number / count for number in range(1, count)]
    return sorted({value for value in found if first < value < last})


def read_columns(
    database: Database, engine: sa.Engine, relation: Relation, *, ntz: bool
) -> dict[str, JdbcColumn | None]:
    """The columns of a relation with Spark's types; None for a column of unknown type.

    Raises:
        PipelineError: ``JDBC.TABLE_MISSING``, ``JDBC.QUERY_TYPES``.
    """
    types = _query_types(database, engine, relation) if relation.query is not None else None
    if types is None:
        types = _table_types(database, engine, relation)
    found: dict[str, JdbcColumn | None] = {}
    for name, kind in types:
        column = column_of(name, kind, ntz=ntz)
        if database.backend == "sqlite" and column is not None and str(column.kind) in _WIDE:
            column = JdbcColumn(name, _WIDE[str(column.kind)])
        found[name] = column
    return found


def primary_key(database: Database, engine: sa.Engine, relation: Relation) -> list[str]:
    """The columns of a table's primary key; empty for a query."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if relation.table is None:
        return []
    with database.connect(engine) as connection:
        found = sa.inspect(connection).get_pk_constraint(relation.table, relation.schema)
    return list(found["constrained_columns"])


def _table_types(database: Database, engine: sa.Engine, relation: Relation) -> list[tuple[str, Any]]:
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    with database.connect(engine) as connection, warnings.catch_warnings():
        # SQLAlchemy warns of types that it does not know; ours are reported when such a column is read.
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        try:
            columns = sa.inspect(connection).get_columns(str(relation.table), relation.schema)
        except sa.exc.NoSuchTableError:
            columns = []
    if not columns:
        raise PipelineError("JDBC.TABLE_MISSING", table=relation.description, database=database.description)
    return [(str(column["name"]), column["type"]) for column in columns]


def describes_queries(database: Database) -> bool:
    """True if the database describes the column types of a query."""
    return database.backend == "postgresql"


def _query_types(database: Database, engine: sa.Engine, relation: Relation) -> list[tuple[str, Any]]:
    """The column types of a query's result, from PostgreSQL; other databases do not describe them well enough."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if not describes_queries(database):
        raise PipelineError("JDBC.QUERY_TYPES", database=database.description)
    # With a bound value, as in all other statements: pg8000 treats percent signs differently without one.
    nothing = sa.select(sa.text("*")).select_from(relation.sql()).where(sa.false()).limit(0)
    with database.connect(engine) as connection:
        cursor: Any = connection.execute(nothing).cursor
        described = [(str(entry[0]), int(entry[1])) for entry in cursor.description]
        catalog = sa.table("pg_type", *map(sa.column, ("oid", "typname")), schema="pg_catalog")
        wanted = sa.select(catalog.c.oid, catalog.c.typname).where(catalog.c.oid.in_({oid for _, oid in described}))
        names = {int(oid): str(name) for oid, name in connection.execute(wanted)}
    return [(name, _named_type(engine.dialect, names[oid])) for name, oid in described]


def _named_type(dialect: Any, name: str) -> Any:
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if name.startswith("_"):
        return sa.ARRAY(_named_type(dialect, name[1:]))
    # The catalog's names of types whose SQL names differ.
    short = {"int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision"}
    short |= {"bool": "boolean", "varchar": "character varying", "bpchar": "character"}
    if name in ("timestamptz", "timestamp"):
        return sa.DateTime(timezone=name == "timestamptz")
    kind = dialect.ischema_names.get(short.get(name, name))
    return sa.UUID() if kind is None else kind()
