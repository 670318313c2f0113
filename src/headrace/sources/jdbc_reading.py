"""What is read of a database: a table or query, statements over ranges of it, and rows as Arrow batches.

Names are quoted by SQLAlchemy's dialect and values are bound; the only text that goes into a statement as it is, is the
query that the reader was given.
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

from headrace.autoloader.ddl import struct_of
from headrace.autoloader.reading.arrow_types import arrow_schema, decimal_of
from headrace.errors import PipelineError
from headrace.sources.jdbc_columns import JdbcColumn, arrays_of, column_of
from headrace.sources.jdbc_connection import Database

if TYPE_CHECKING:
    import sqlalchemy as sa

# INTEGER and REAL of SQLite have 64 bits.
_WIDE = {"integer": "long", "float": "double"}
# Values of the growing column, and of the column that breaks ties; without the second, all rows with the first.
Position = list[Any]


@dataclass(frozen=True)
class Relation:
    """A table, with its schema where it has one, or the text of a query."""

    table: str | None = None
    schema: str | None = None
    query: str | None = None

    @property
    def description(self) -> str:
        """Which one, for people."""
        return "a query" if self.table is None else ".".join(filter(None, (self.schema, self.table)))

    def sql(self) -> sa.FromClause:
        """The relation in a statement."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        if self.query is not None:
            # A colon in a query is its own, and names no parameter.
            # It may end in a comment.
            return sa.text(f"{self.query}\n".replace(":", r"\:")).columns().subquery("headrace_query")
        return sa.table(str(self.table), schema=self.schema)


@dataclass(frozen=True)
class Range:
    """Rows behind one position and up to another one; None is the beginning, or the end."""

    after: Position | None = None
    upto: Position | None = None


@dataclass(frozen=True)
class JdbcReading:
    """A relation of a database with the columns that are read.

    ``keys`` are the column that it grows by and, where there is one, that which breaks ties. They have the database's
    own types, whatever is made of them when they are read: numbers as texts, or times as dates, have another order.
    """

    database: Database
    relation: Relation
    columns: tuple[JdbcColumn, ...]
    keys: tuple[JdbcColumn, ...]
    fetch_rows: int
    zone: str

    def newest(self, engine: sa.Engine) -> Position | None:
        """The position of the last row; None when there is none."""
        return self._one(engine, self._positions().order_by(*(key.sql().desc() for key in self.keys)).limit(1))

    def oldest(self, engine: sa.Engine, within: Range) -> Position | None:
        """The position of the first row of a range; None when there is none."""
        statement = self._positions().where(*self._conditions(within))
        return self._one(engine, statement.order_by(*(key.sql() for key in self.keys)).limit(1))

    def position_after(self, engine: sa.Engine, within: Range, rows: int) -> Position | None:
        """The position of a row by its number within a range, from 1; None when the range has fewer rows."""
        statement = self._positions().where(*self._conditions(within))
        ordered = statement.order_by(*(key.sql() for key in self.keys))
        return self._one(engine, ordered.offset(rows - 1).limit(1))

    def rows(self, engine: sa.Engine, within: Range) -> Iterator[pa.RecordBatch]:
        """The rows of a range, in no order."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        columns = [column.sql().label(column.name) for column in self.columns]
        statement = sa.select(*columns).select_from(self.relation.sql()).where(*self._conditions(within))
        schema = arrow_schema(self.struct)
        with self.database.connected(engine) as connection:
            result = connection.execution_options(yield_per=self.fetch_rows).execute(statement)
            for rows in result.partitions():
                yield pa.RecordBatch.from_arrays(arrays_of(self.columns, rows, self.zone), schema=schema)

    @property
    def struct(self) -> Any:
        """The columns as Spark's JSON."""
        return struct_of((column.name, column.kind) for column in self.columns)

    def parts(self, engine: sa.Engine, within: Range, count: int) -> list[Range]:
        """A range in parts of about the same width, by the growing column's values."""
        if count <= 1 or within.upto is None:
            return [within]
        first = within.after or self.oldest(engine, within)
        inner = [] if first is None else _between(self.keys[0], first[0], within.upto[0], count)
        edges = [within.after, *([value] for value in inner), within.upto]
        return [Range(after, upto) for after, upto in pairwise(edges)]

    def to_json(self, position: Position | None) -> list[Any] | None:
        """A position as JSON keeps it."""
        return None if position is None else [kept(value) for value in position]

    def from_json(self, document: Sequence[Any] | None) -> Position | None:
        """The position behind :meth:`to_json`."""
        if document is None:
            return None
        return [value_of(key, value) for key, value in zip(self.keys, document, strict=False)]

    def _positions(self) -> sa.Select[Any]:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        keys = [key.sql() for key in self.keys]
        return sa.select(*keys).select_from(self.relation.sql()).where(*(key.is_not(None) for key in keys))

    def _one(self, engine: sa.Engine, statement: sa.Select[Any]) -> Position | None:
        with self.database.connected(engine) as connection:
            row = connection.execute(statement).first()
        if row is None:
            return None
        for key, value in zip(self.keys, row, strict=True):
            if not can_be_kept(key, value):
                kind, reason = str(key.kind), f'"{value}" is no place to go on from'
                raise PipelineError("JDBC.VALUE", column=key.name, type=kind, reason=reason)
        return list(row)

    def _conditions(self, within: Range) -> list[sa.ColumnElement[bool]]:
        """What rows of a range fulfil; positions compare from the left, and one without a second value has all ties."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        keys = [key.sql() for key in self.keys]
        found: list[sa.ColumnElement[bool]] = [key.is_not(None) for key in keys]
        for position, is_end in ((within.after, False), (within.upto, True)):
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
    """A value of a column from JSON, or from a person's text.

    Raises:
        ValueError: it is none of the column's type.
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


def can_be_kept(column: JdbcColumn, value: Any) -> bool:
    """Whether a value is the same when it comes back from JSON; infinite times and what is no number are not."""
    try:
        return bool(value_of(column, kept(value)) == value)
    except (ValueError, ArithmeticError):
        return False


def kept(value: Any) -> Any:
    """A value of a position as JSON has it."""
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _between(column: JdbcColumn, first: Any, last: Any, count: int) -> list[Any]:
    """Values that divide a range; none of texts, which have no middle."""
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


def reflected(database: Database, engine: sa.Engine, relation: Relation, *, ntz: bool) -> dict[str, JdbcColumn | None]:
    """The columns of a relation, with Spark's types; None for one whose type is not known.

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
    """The columns of a table's primary key; none of a query."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if relation.table is None:
        return []
    with database.connected(engine) as connection:
        found = sa.inspect(connection).get_pk_constraint(relation.table, relation.schema)
    return list(found["constrained_columns"])


def _table_types(database: Database, engine: sa.Engine, relation: Relation) -> list[tuple[str, Any]]:
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    with database.connected(engine) as connection, warnings.catch_warnings():
        # Of types that SQLAlchemy does not know; ours are told where such a column is read.
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        try:
            columns = sa.inspect(connection).get_columns(str(relation.table), relation.schema)
        except sa.exc.NoSuchTableError:
            columns = []
    if not columns:
        raise PipelineError("JDBC.TABLE_MISSING", table=relation.description, database=database.description)
    return [(str(column["name"]), column["type"]) for column in columns]


def describes_queries(database: Database) -> bool:
    """Whether a database says which types the columns of a query have."""
    return database.backend == "postgresql"


def _query_types(database: Database, engine: sa.Engine, relation: Relation) -> list[tuple[str, Any]]:
    """What PostgreSQL says of a query's result; other databases say too little about theirs."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if not describes_queries(database):
        raise PipelineError("JDBC.QUERY_TYPES", database=database.description)
    # With a value in it, as all others have: pg8000 takes a statement without any as it is, signs of percent included.
    nothing = sa.select(sa.text("*")).select_from(relation.sql()).where(sa.false()).limit(0)
    with database.connected(engine) as connection:
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
    # As the catalog calls what SQL calls otherwise.
    short = {"int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision"}
    short |= {"bool": "boolean", "varchar": "character varying", "bpchar": "character"}
    if name in ("timestamptz", "timestamp"):
        return sa.DateTime(timezone=name == "timestamptz")
    kind = dialect.ischema_names.get(short.get(name, name))
    return sa.UUID() if kind is None else kind()
