"""Writes batches to a database table, each exactly once.

Workers write the rows of a batch to a staging table. One transaction then moves them to the target, and records the
batch in a commit table. So the write is atomic, and a recorded batch is not written again. The record is written first,
under a row lock: if two updates deliver the same batch, one waits, and then finds the record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.errors import PipelineError
from headrace.model.dead_letter_policy import MAX_DEAD_LETTERS_PER_BATCH
from headrace.model.names import split_name
from headrace.sinks.commit_notes import CommitRecord
from headrace.sinks.rejected_rows import RejectedRow
from headrace.sources.jdbc_connection import Database

if TYPE_CHECKING:
    import sqlalchemy as sa

WRITE_FAILED = "JDBC.WRITE"
# Databases whose upserts were tested.
UPSERT_BACKENDS = ("postgresql", "sqlite")
# Drivers number the parameters of a statement with 15 bits.
_MAX_VALUES = 30_000
_PART, _ATTEMPT, _ROW = "headrace_part", "headrace_try", "headrace_row"
# A staging column that holds the whole row as JSON; no user table has it.
WHOLE_ROW = "headrace_whole"
# SQLSTATE classes of errors in a row: data exceptions, and violated constraints.
_ROW_ERROR_CLASSES = ("22", "23")
_DIGEST_LENGTH = 16
# The column with a digest of the batch's end.
_POSITIONS, _POSITIONS_LENGTH = "positions", 64


@dataclass(frozen=True)
class StagedPart:
    """The rows that a task has staged: its partition, its attempt, and the number of rows."""

    part: int
    attempt: str
    rows: int


@dataclass(frozen=True)
class CommitTable:
    """The table that records committed batches.

    Attributes:
        database: the database.
        name: of the table.
        schema: of the table; None for the user's default.
        transaction: the name under which batches are recorded.
    """

    database: Database
    name: str
    schema: str | None
    transaction: str

    def last_batch(self, engine: sa.Engine) -> tuple[CommitRecord, int]:
        """The last recorded batch, and its number of rows."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        self._create(engine)
        with self.database.connect(engine, WRITE_FAILED) as connection, connection.begin():
            commits = self._table()
            columns = (commits.c.batch, commits.c.positions, commits.c.row_count)
            found = connection.execute(sa.select(*columns).where(commits.c.flow == self.transaction)).first()
        return (
            (CommitRecord(), 0) if found is None else (CommitRecord(int(found[0]), str(found[1] or "")), int(found[2]))
        )

    def record_batch(self, connection: sa.Connection, record: CommitRecord, rows: int, now: datetime) -> bool:
        """Record a batch; False if it is recorded already.

        Raises:
            PipelineError: SINK.OTHER_BATCH: a later batch is recorded, or one with another end.
        """
        commits = self._table()
        is_own_row = commits.c.flow == self.transaction
        values = {"batch": record.batch, "positions": record.positions, "row_count": rows, "committed_at": now}
        updated = connection.execute(
            commits.update().where(is_own_row, commits.c.batch < record.batch).values(**values)
        )
        if updated.rowcount:
            return True
        found = connection.execute(commits.select().where(is_own_row)).mappings().first()
        if found is not None:
            recorded = CommitRecord(int(found["batch"]), str(found["positions"] or ""))
            return not recorded.includes(record.batch, record.positions, self.database.description)
        connection.execute(commits.insert().values(flow=self.transaction, **values))
        return True

    def _create(self, engine: sa.Engine) -> None:
        """Create the table if it does not exist, or upgrade it from an earlier version.

        Another sink may do this at the same time.
        """
        try:
            with self.database.connect(engine, WRITE_FAILED) as connection, connection.begin():
                self._table().create(connection, checkfirst=True)
                if not self._has_positions(connection):
                    connection.execute(self._add_positions())
        except PipelineError as error:
            if error.code != WRITE_FAILED or not self._exists(engine):
                raise

    def _has_positions(self, connection: sa.Connection) -> bool:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        columns = sa.inspect(connection).get_columns(self.name, self.schema)
        return any(column["name"].casefold() == _POSITIONS for column in columns)

    def _add_positions(self) -> Any:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        # Every database with ALTER TABLE accepts it without the word COLUMN.
        ddl: Any = sa.DDL
        return ddl(f"ALTER TABLE %(fullname)s ADD {_POSITIONS} VARCHAR({_POSITIONS_LENGTH})").against(self._table())

    def _exists(self, engine: sa.Engine) -> bool:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        with self.database.connect(engine, WRITE_FAILED) as connection:
            has_table = sa.inspect(connection).has_table(self.name, self.schema)
            return bool(has_table and self._has_positions(connection))

    def _table(self) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        return sa.Table(
            self.name,
            sa.MetaData(),
            sa.Column("flow", sa.String(500), primary_key=True),
            sa.Column("batch", sa.BigInteger, nullable=False),
            sa.Column(_POSITIONS, sa.String(_POSITIONS_LENGTH)),
            sa.Column("row_count", sa.BigInteger, nullable=False),
            sa.Column("committed_at", sa.DateTime(timezone=True), nullable=False),
            schema=self.schema,
        )


@dataclass(frozen=True)
class TableWriter:
    """Writes a flow's batches to one database table.

    Attributes:
        database: the database.
        table: its name, with its schema unless that is the user's default.
        commits: the name of the commit table, in the same schema.
        transaction: a globally unique name of what is delivered.
        keys: columns of an upsert; empty for inserts.
        sequence_by: a row replaces another one only if its value in this column is not smaller; None: always.
        rows_per_statement: the number of rows per statement.
    """

    database: Database
    table: str
    commits: str
    transaction: str
    keys: tuple[str, ...] = ()
    sequence_by: str | None = None
    rows_per_statement: int = 1000

    @contextmanager
    def open_engine(self) -> Any:
        """An engine whose connections are closed after the block."""
        engine = self.database.engine()
        try:
            yield engine
        finally:
            engine.dispose()

    def last_batch(self, engine: sa.Engine) -> tuple[CommitRecord, int]:
        """The last batch in the table, and its number of rows."""
        return self._commits.last_batch(engine)

    def create_stage(self, engine: sa.Engine, columns: Mapping[str, Any]) -> dict[str, str]:
        """Create an empty staging table, and the target if it does not exist.

        Returns the target's names of the columns, by those in *columns*.

        Args:
            engine: from :meth:`open_engine`.
            columns: of the rows, each with the type for a new table.

        Raises:
            PipelineError: SINK.JDBC_COLUMN: the table has no such column.
        """
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        with self.database.connect(engine, WRITE_FAILED) as connection, connection.begin():
            if not sa.inspect(connection).has_table(*self._name()):
                self._new_table(columns).create(connection)
            target = self._reflected(connection)
            stored = {column.name.casefold(): column.name for column in target.columns}
            for name in columns:
                if name not in target.columns and name.casefold() not in stored:
                    known = ", ".join(f'"{column.name}"' for column in target.columns)
                    raise PipelineError("SINK.JDBC_COLUMN", column=name, table=self.table, known=known)
            names = {name: name if name in target.columns else stored[name.casefold()] for name in columns}
            stage = self._stage(target, names.values(), connection.dialect.name)
            stage.drop(connection, checkfirst=True)
            stage.create(connection)
        return names

    def stage_rows(
        self,
        engine: sa.Engine,
        names: Sequence[str],
        rows: Iterable[Mapping[str, Any]],
        part: StagedPart,
        rejected: list[RejectedRow] | None = None,
    ) -> int:
        """Write rows to the staging table, in one transaction; returns their number.

        Args:
            engine: from :meth:`open_engine`.
            names: of the columns.
            rows: the rows.
            part: their part of the batch.
            rejected: gets rows that do not fit the column types; without it, the first of them is an error.
        """
        count = 0
        with self.database.connect(engine, WRITE_FAILED) as connection, connection.begin():
            target = self._reflected(connection)
            stage = self._stage(target, names, connection.dialect.name)
            texts = [name for name in names if _is_json(target.c[name])]
            size = max(1, min(self.rows_per_statement, _MAX_VALUES // len(stage.columns)))
            chunk: list[dict[str, Any]] = []
            for number, row in enumerate(rows):
                converted: dict[str, Any] = {name: _json_text(row[name]) for name in texts}
                if connection.dialect.name == "sqlite":
                    times = {name: value for name, value in row.items() if isinstance(value, datetime)}
                    converted = {**{name: _in_utc(value) for name, value in times.items()}, **converted}
                chunk.append({**row, **converted, _PART: part.part, _ATTEMPT: part.attempt, _ROW: number})
                if len(chunk) == size:
                    count, chunk = count + _stage_rows(connection, stage, chunk, rejected), []
            return count + (_stage_rows(connection, stage, chunk, rejected) if chunk else 0)

    def commit_batch(
        self,
        engine: sa.Engine,
        names: Sequence[str],
        batch: CommitRecord,
        parts: Sequence[StagedPart],
        count: int,
        now: datetime,
        before_commit: Callable[[], None],
        reject: Callable[[RejectedRow], None] | None = None,
    ) -> bool:
        """Move a batch to the target, in one transaction; False if it is there already.

        Args:
            engine: from :meth:`open_engine`.
            names: of the columns.
            batch: its number and end.
            parts: the staged parts that belong to it. Other attempts of the same tasks may have left rows, too.
            count: its number of rows, including those rejected before.
            now: the time of the commit.
            before_commit: called within the transaction, before its end.
            reject: gets rows that the table rejects, and may raise; without it, the first of them is an error.
        """
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        with self.database.connect(engine, WRITE_FAILED) as connection, connection.begin():
            if not self._commits.record_batch(connection, batch, count, now):
                return False
            target = self._reflected(connection)
            stage = self._stage(target, names, connection.dialect.name)
            own_parts = [sa.and_(stage.c[_PART] == p.part, stage.c[_ATTEMPT] == p.attempt) for p in parts if p.rows]
            if own_parts:
                self._check_stage_complete(connection, stage, sa.or_(*own_parts), sum(part.rows for part in parts))

                def add(where: Any) -> None:
                    rows = sa.select(*(_staged(stage, target, name, connection.dialect.name) for name in names))
                    rows = rows.where(where)
                    connection.execute(self._insert(target, names, rows, connection.dialect.name))

                if reject is None:
                    add(sa.or_(*own_parts))
                else:
                    _insert_accepted(connection, stage, own_parts, add, reject)
            before_commit()
        return True

    def drop_stage(self, engine: sa.Engine) -> None:
        """Drop the staging table."""
        with self.database.connect(engine, WRITE_FAILED) as connection, connection.begin():
            self._stage_named(connection.dialect.name).drop(connection, checkfirst=True)

    def _check_stage_complete(self, connection: sa.Connection, stage: sa.Table, own_parts: Any, rows: int) -> None:
        """Check that the staged rows still exist: a crash of the server truncates unlogged tables."""
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        found = connection.execute(sa.select(sa.func.count()).select_from(stage).where(own_parts)).scalar_one()
        if found != rows:
            reason = f"only {found} of {rows} rows are left in the staging table"
            raise PipelineError("JDBC.BROKEN_OFF", database=self.database.description, reason=reason)

    def _insert(self, target: sa.Table, names: Sequence[str], rows: sa.Select[Any], dialect: str) -> Any:
        if not self.keys:
            return target.insert().from_select(list(names), rows)
        from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415 - an extra

        insert: Any = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[dialect](target)
        insert = insert.from_select(list(names), rows)
        given = insert.excluded
        stored = {column.name.casefold(): column.name for column in target.columns}
        keys = [stored[key.casefold()] for key in self.keys]
        changed = {name: given[name] for name in names if name not in keys}
        if not changed:
            return insert.on_conflict_do_nothing(index_elements=keys)
        where = None
        if self.sequence_by is not None:
            column = stored[self.sequence_by.casefold()]
            where = target.c[column].is_(None) | (given[column] >= target.c[column])
        return insert.on_conflict_do_update(index_elements=keys, set_=changed, where=where)

    @property
    def _commits(self) -> CommitTable:
        return CommitTable(self.database, self.commits, self._name()[1], self.transaction)

    def _name(self) -> tuple[str, str | None]:
        *schema, name = split_name(self.table)
        return name, ".".join(schema) or None

    def _new_table(self, columns: Mapping[str, Any]) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        name, schema = self._name()
        keys = {key.casefold() for key in self.keys}
        return sa.Table(
            name,
            sa.MetaData(),
            *(sa.Column(c, t, primary_key=c.casefold() in keys, autoincrement=False) for c, t in columns.items()),
            schema=schema,
        )

    def _reflected(self, connection: sa.Connection) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        name, schema = self._name()
        return sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)

    def _stage_named(self, dialect: str, columns: Iterable[sa.Column[Any]] = ()) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        digest = hashlib.sha256(f"{self.transaction} {self.table}".encode()).hexdigest()[:_DIGEST_LENGTH]
        # If a crash of the server truncates it, the rows are written again.
        prefixes = ["UNLOGGED"] if dialect == "postgresql" else []
        name, schema = f"headrace_stage_{digest}", self._name()[1]
        return sa.Table(name, sa.MetaData(), *columns, schema=schema, prefixes=prefixes)

    def _stage(self, target: sa.Table, names: Iterable[str], dialect: str) -> sa.Table:
        import sqlalchemy as sa  # noqa: PLC0415 - an extra

        # JSON is staged as text. The target parses it, and rejects invalid JSON like any other row.
        types = {name: sa.Text() if _is_json(target.c[name]) else target.c[name].type for name in names}
        columns: list[sa.Column[Any]] = [sa.Column(name, found) for name, found in types.items()]
        columns += [sa.Column(_PART, sa.Integer), sa.Column(_ATTEMPT, sa.String(100)), sa.Column(_ROW, sa.Integer)]
        columns.append(sa.Column(WHOLE_ROW, sa.Text))
        return self._stage_named(dialect, columns)


def _in_utc(moment: datetime) -> datetime:
    """A time for a database whose times have no zone; a time without a zone stays unchanged."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC)


def _json_text(value: Any) -> str | None:
    """A value for a JSON column; a text is JSON already."""
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def _staged(stage: sa.Table, target: sa.Table, name: str, dialect: str) -> Any:
    """A staged column in the target's type."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    wanted = target.c[name]
    # Other databases have no JSON type, or accept text for it.
    return sa.cast(stage.c[name], wanted.type) if _is_json(wanted) and dialect == "postgresql" else stage.c[name]


def _stage_rows(
    connection: sa.Connection, stage: sa.Table, rows: Sequence[Mapping[str, Any]], rejected: list[RejectedRow] | None
) -> int:
    """Insert rows into a staging table, without rejected rows if *rejected* is set; returns the number inserted."""

    def stage_rows(first: int, end: int) -> None:
        connection.execute(stage.insert().values(list(rows[first:end])))

    if rejected is None:
        stage_rows(0, len(rows))
        return len(rows)
    before = len(rejected)

    def reject(position: int, reason: str, error: Exception) -> None:
        if len(rejected) >= MAX_DEAD_LETTERS_PER_BATCH:
            raise error
        rejected.append(RejectedRow(rows[position][WHOLE_ROW], reason, WRITE_FAILED))

    _bisect(connection, 0, len(rows), stage_rows, reject)
    return len(rows) - (len(rejected) - before)


def _insert_accepted(
    connection: sa.Connection,
    stage: sa.Table,
    own_parts: Sequence[Any],
    add: Callable[[Any], None],
    reject: Callable[[RejectedRow], None],
) -> None:
    """Move the rows of a staging table to the target, except those that it rejects."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if _rejection(connection, lambda: add(sa.or_(*own_parts))) is None:
        return
    for part in own_parts:

        def in_range(first: int, end: int, part: Any = part) -> Any:
            return sa.and_(part, stage.c[_ROW] >= first, stage.c[_ROW] < end)

        def rejected(position: int, reason: str, _error: Exception, in_range: Any = in_range) -> None:
            row = connection.execute(sa.select(stage.c[WHOLE_ROW]).where(in_range(position, position + 1))).scalar_one()
            reject(RejectedRow(str(row), reason, WRITE_FAILED))

        def insert(first: int, end: int, in_range: Any = in_range) -> None:
            add(in_range(first, end))

        last = connection.execute(sa.select(sa.func.max(stage.c[_ROW])).where(part)).scalar_one()
        _bisect(connection, 0, int(last) + 1, insert, rejected)


def _bisect(
    connection: sa.Connection,
    first: int,
    end: int,
    work: Callable[[int, int], object],
    reject: Callable[[int, str, Exception], None],
) -> None:
    """Do work on a range of rows; bisect a rejected range, down to a single row.

    Args:
        connection: in a transaction.
        first: the position of the first row.
        end: the position after the last row.
        work: what to do with a range of rows.
        reject: gets the position of a rejected row, the reason, and the error.
    """
    rejection = _rejection(connection, lambda: work(first, end))
    if rejection is None:
        return
    if end - first == 1:
        reject(first, *rejection)
        return
    middle = (first + end) // 2
    _bisect(connection, first, middle, work, reject)
    _bisect(connection, middle, end, work, reject)


def _rejection(connection: sa.Connection, work: Callable[[], object]) -> tuple[str, Exception] | None:
    """Do work in a savepoint; if the database rejects rows, roll back and return the reason and the error."""
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    try:
        with connection.begin_nested():
            work()
    except sa.exc.DBAPIError as error:
        values = getattr(error.orig, "args", ())
        # pg8000 gives the server's fields by letters.
        fields = values[0] if values and isinstance(values[0], dict) else {}
        state = str(fields.get("C") or getattr(error.orig, "sqlstate", "") or "")
        of_rows = state.startswith(_ROW_ERROR_CLASSES) or isinstance(error, (sa.exc.DataError, sa.exc.IntegrityError))
        if not of_rows:
            raise
        return str(fields.get("M") or error.orig).splitlines()[0], error
    return None


def _is_json(column: sa.Column[Any]) -> bool:
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    return isinstance(column.type, sa.JSON)
